//! The page of `aerostat simulate -o html` in a browser: `$AEROSTAT_CHROMIUM`, or a Chromium on the
//! path. Without one, the tests say that they are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

/// Notes what goes wrong while the page is built.
const LISTEN: &str = "<script>window.wrong = [];
addEventListener('error', event => wrong.push(event.message));
addEventListener('securitypolicyviolation', event => wrong.push(event.blockedURI));</script>";

/// Moves a pointer over every chart, and tells what the page is then.
const PROBE: &str = "<script>
const charts = [...document.querySelectorAll('#charts .card')].map(card => {
  const svg = card.querySelector('svg'), box = svg.getBoundingClientRect();
  const move = x => svg.dispatchEvent(new PointerEvent('pointermove',
    { clientX: box.left + box.width * x, clientY: box.top + 20 }));
  move(.5);
  const told = card.querySelector('.told').textContent;
  return { title: card.querySelector('h2').textContent, told,
    lines: [...svg.querySelectorAll('path')].filter(path => path.getAttribute('d').length > 10).length,
    ink: getComputedStyle(svg.querySelector('path')).stroke };
});
const wide = [...document.querySelectorAll('body *')].filter(node =>
  node.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(node => node.tagName);
const result = { wrong, charts, wide, width: document.documentElement.clientWidth,
  title: document.title, page: getComputedStyle(document.body).backgroundColor,
  asked: performance.getEntriesByType('resource').map(entry => entry.name),
  tables: document.querySelectorAll('#tables table').length };
const told = document.createElement('pre');
told.id = 'probe';
told.textContent = JSON.stringify(result);
document.body.append(told);
</script>";

fn main() {
    let arguments = Arguments::from_args();
    let chromium = find();
    if chromium.is_none() {
        println!("skipped: no Chromium; $AEROSTAT_CHROMIUM names one");
    }
    let is_missing = chromium.is_none();
    let trial = |name: &str, test: fn(&Path) -> Result<(), Failed>| {
        let chromium = chromium.clone().unwrap_or_default();
        Trial::test(name, move || test(&chromium)).with_ignored_flag(is_missing)
    };
    let trials =
        vec![trial("light_and_wide", light_and_wide), trial("dark_and_narrow", dark_and_narrow)];
    libtest_mimic::run(&arguments, trials).exit();
}

/// The browser, if there is one that starts.
fn find() -> Option<PathBuf> {
    let named = std::env::var_os("AEROSTAT_CHROMIUM").map(PathBuf::from);
    let known = ["chromium", "chromium-browser", "google-chrome", "chrome"].map(PathBuf::from);
    named.into_iter().chain(known).find(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// What the probe tells of the page in a window of so many pixels.
fn look(chromium: &Path, width: u32, dark: bool) -> Result<serde_json::Value, Failed> {
    let folder = tempfile::tempdir()?;
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/article-warm.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_aerostat"))
        .args(["simulate", "-o", "html"])
        .arg(scenario)
        .output()?;
    let page = String::from_utf8(output.stdout)?;
    let page = page.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    // Headless windows have a least width; a frame has none.
    let page = page.replacen("</body>", &format!("{PROBE}</body>"), 1);
    std::fs::write(folder.path().join("page.html"), page)?;
    let frame = format!(
        "<!doctype html><iframe id=f src=page.html width={width} height=900></iframe><script>\
         f.onload = () => document.body.append(f.contentDocument.getElementById('probe'));</script>"
    );
    std::fs::write(folder.path().join("frame.html"), frame)?;
    let mut command = Command::new(chromium);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    // Without it, a file may not look into another.
    command.args(["--allow-file-access-from-files", "--window-size=1400,1000"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command.arg(folder.path().join("frame.html")).output()?;
    let dom = String::from_utf8(output.stdout)?;
    let (_, rest) = dom.split_once("<pre id=\"probe\">").ok_or(format!("no probe in {dom}"))?;
    let (json, _) = rest.split_once("</pre>").ok_or("the probe has no end")?;
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Ok(serde_json::from_str(&json)?)
}

fn check(found: &serde_json::Value) {
    assert_eq!(found["wrong"], serde_json::json!([]), "{found:#}");
    assert_eq!(found["asked"], serde_json::json!([]), "it asks nobody: {found:#}");
    assert_eq!(found["wide"], serde_json::json!([]), "nothing sticks out: {found:#}");
    assert!(found["title"].as_str().is_some_and(|title| title.starts_with("article-warm")));
    let charts = found["charts"].as_array().expect("charts");
    let lines: Vec<u64> = charts.iter().filter_map(|chart| chart["lines"].as_u64()).collect();
    assert_eq!(lines, [2, 1, 1, 1, 2], "{found:#}");
    for chart in charts {
        let told = chart["told"].as_str().expect("text");
        assert!(told.contains("2025-01-06 07:5"), "the value under the pointer: {told}");
    }
    assert!(charts[0]["told"].as_str().is_some_and(|told| told.contains("paid $0.")), "{found:#}");
    assert!(found["tables"].as_u64().is_some_and(|tables| tables >= 7), "{found:#}");
}

fn light_and_wide(chromium: &Path) -> Result<(), Failed> {
    let found = look(chromium, 1200, false)?;
    check(&found);
    assert_eq!(found["page"], "rgb(255, 255, 255)");
    assert_eq!(found["charts"][0]["ink"], "rgb(5, 80, 174)");
    Ok(())
}

fn dark_and_narrow(chromium: &Path) -> Result<(), Failed> {
    let found = look(chromium, 360, true)?;
    check(&found);
    assert!(found["width"].as_u64().is_some_and(|width| width <= 360), "{found:#}");
    assert_eq!(found["page"], "rgb(13, 17, 23)");
    assert_eq!(found["charts"][0]["ink"], "rgb(88, 166, 255)");
    Ok(())
}
