//! The dashboard for Grafana names the metrics that there are, all of them and no others.

use std::collections::BTreeSet;
use std::path::Path;

use pcstream_watch::metrics;
use serde_json::Value;

/// Words of the queries that begin as metrics do.
fn named(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            found.extend(words.filter(|word| word.starts_with("pcstream_")).map(str::to_owned));
        }
        Value::Array(values) => values.iter().for_each(|value| named(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| named(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_and_the_metrics_are_of_one_mind() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/pcstream.json");
    let text = std::fs::read_to_string(&path).expect("the dashboard is there");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let mut found = BTreeSet::new();
    named(&dashboard, &mut found);
    assert_eq!(found, metrics::names().into_iter().collect());
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "panels have numbers of their own");
}
