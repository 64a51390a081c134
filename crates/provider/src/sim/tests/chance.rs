//! What is left to chance: how long machines take, when they are taken back, what runs out.

use super::*;

fn cloud_with(server: &Server, timings: Value, stock: Value) -> SimCloud {
    let tokyo = Catalog::embedded().region("ap-northeast-1").unwrap();
    let timings: Timings = serde_json::from_value(timings).unwrap();
    let stock: Stock = serde_json::from_value(stock).unwrap();
    SimCloud::new(tokyo, server.clock, Seeds::new(5), timings, stock, server.client())
}

fn spot(uid: &str) -> NodeClaim {
    let mut claim = plain(uid);
    for requirement in &mut claim.spec.requirements {
        if requirement.key == labels::CAPACITY_TYPE {
            requirement.values = vec!["spot".to_owned()];
        }
    }
    claim
}

#[tokio::test(start_paused = true)]
async fn boots_take_as_long_as_is_drawn() {
    let server = Server::new(Clock::simulated(START));
    let boot = json!({"uniform": {"min": "20s", "max": "40s"}});
    let cloud = cloud_with(&server, json!({"launch": "1s", "boot": boot}), json!({}));
    for number in 0..20 {
        order(&cloud, &plain(&format!("u{number}"))).await.unwrap();
    }
    server.clock.sleep(Duration::from_secs(60)).await;
    let calls = server.calls();
    assert_eq!(calls.len(), 20);
    let took: Vec<i128> = calls.iter().map(|(at, _)| *at).collect();
    // The last was ordered after 19 s.
    assert!(took.iter().all(|at| (21_000..=60_000).contains(at)), "{took:?}");
    assert!(took.windows(2).any(|pair| pair[1] - pair[0] != 1000), "all the same: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn spot_machines_are_taken_back_at_their_rate_and_others_are_not() {
    let server = Server::new(Clock::simulated(START));
    let cloud = cloud_with(&server, json!({"spotInterruptionsPerHour": 0.5}), json!({}));
    for number in 0..50 {
        order(&cloud, &spot(&format!("s{number}"))).await.unwrap();
        order(&cloud, &plain(&format!("o{number}"))).await.unwrap();
    }
    server.clock.sleep(Duration::from_secs(7200)).await;
    // e^-1 of the spot machines are still there: 18 of 50, give or take three.
    let left = cloud.list().await.unwrap();
    let of = |kind: &str| left.iter().filter(|i| i.labels[labels::CAPACITY_TYPE] == kind).count();
    assert_eq!(of("on-demand"), 50);
    assert!((10..=27).contains(&of("spot")), "{}", of("spot"));
    let notice = cloud.next_notice().await;
    assert_eq!(notice.event, Event::SpotInterruption);
}

#[tokio::test(start_paused = true)]
async fn what_runs_out_by_chance_is_found_out_at_launch() {
    let server = Server::new(Clock::simulated(START));
    // To be had for a minute, away for a week.
    let shortage = json!({"instanceType": "c5a.large", "every": "1m", "lasts": "168h"});
    let cloud = cloud_with(&server, json!({}), json!({"shortages": [shortage]}));
    server.clock.sleep(Duration::from_secs(3600)).await;
    let instance = order(&cloud, &plain("u1")).await.unwrap();
    assert_eq!(choice(&instance)[0], "c6a.large");
    let wrong: Stock = serde_json::from_value(
        json!({"shortages": [{"zone": "mars", "every": "1h", "lasts": "0s"}]}),
    )
    .unwrap();
    let tokyo = Catalog::embedded().region("ap-northeast-1").unwrap();
    let error = wrong.check(&tokyo).unwrap_err();
    assert_eq!(error, "shortages[0]: ap-northeast-1 has no zone \"mars\"");
}
