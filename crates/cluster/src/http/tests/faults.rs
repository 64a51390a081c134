use std::collections::BTreeMap;

use kube::runtime::WatchStreamExt;
use tower::Layer;

use super::*;
use crate::http::faults::{Faults, Share};

fn faults(share: &str) -> Faults {
    Faults::new(share.parse::<Share>().unwrap(), &Seeds::new(3))
}

#[test]
fn shares_are_percentages() {
    for share in ["5%", "0.1%", "50%", "7 %"] {
        share.parse::<Share>().unwrap();
    }
    for share in ["5", "0%", "51%", "-1%", "NaN%", "all", ""] {
        assert!(share.parse::<Share>().unwrap_err().contains("like 5%"), "{share}");
    }
}

/// What became of a thousand requests.
async fn outcomes(method: &str, uri: &str) -> BTreeMap<u16, u32> {
    let faulty = faults("30%").layer(service());
    let mut codes = BTreeMap::new();
    for _ in 0..1000 {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(Full::from("{}")).unwrap();
        let answer = faulty.clone().oneshot(request).await;
        *codes.entry(answer.map_or(0, |answer| answer.status().as_u16())).or_default() += 1;
    }
    codes
}

#[tokio::test(start_paused = true)]
async fn a_share_of_requests_fails_in_three_ways() {
    let pods = "/api/v1/namespaces/default/pods";
    // Reading meets no conflict.
    let codes = outcomes("GET", pods).await;
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), [0, 200, 429]);
    assert!((650..750).contains(&codes[&200]), "{codes:?}");
    let codes = outcomes("PATCH", "/api/v1/namespaces/default").await;
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), [0, 200, 409, 429]);
    assert!((60..140).contains(&codes[&409]), "{codes:?}");
    // What says whether the server is there says the truth.
    assert_eq!(outcomes("GET", "/readyz").await, BTreeMap::from([(200, 1000)]));
    // The same seed, the same faults.
    assert_eq!(outcomes("GET", pods).await, outcomes("GET", pods).await);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_of_a_request_that_fails() {
    let service = service();
    let faulty = kube::Client::new(faults("50%").layer(service.clone()), "default");
    let (there, asked) =
        (Api::<Pod>::default_namespaced(client(&service)), Api::<Pod>::default_namespaced(faulty));
    let mut failed = 0;
    for number in 0..40 {
        let name = format!("p{number}");
        let created = asked.create(&PostParams::default(), &object(pod(&name))).await;
        failed += u32::from(created.is_err());
        assert_eq!(there.get_opt(&name).await.unwrap().is_some(), created.is_ok());
    }
    assert!((10..30).contains(&failed), "{failed} of 40");
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_their_connection_and_go_on_with_the_next() {
    let service = service();
    let faulty = kube::Client::new(faults("30%").layer(service.clone()), "default");
    let asked = Api::<Pod>::default_namespaced(faulty.clone());
    let mut errors = 0;
    let watched = kube::runtime::watcher(asked.clone(), kube::runtime::watcher::Config::default())
        .default_backoff()
        .inspect_err(|_| errors += 1)
        .applied_objects();
    let mut watched = std::pin::pin!(watched);
    let there = Api::<Pod>::default_namespaced(client(&service));
    for number in 0..20 {
        let name = format!("p{number}");
        there.create(&PostParams::default(), &object(pod(&name))).await.unwrap();
        // Somebody else's request may close the connection.
        for _ in 0..10 {
            let _ = asked.get_opt("nobody").await;
        }
        loop {
            match watched.next().await.unwrap() {
                Ok(pod) if pod.metadata.name.as_deref() == Some(&name) => break,
                _ => {}
            }
        }
    }
    assert!(errors > 0, "no watch has ended");
}
