//! Checks that every external crate, direct or not, has an allowed licence.

use super::law::Law;
use cargo_metadata::Metadata;
use spdx::{Expression, ParseMode};

/// Returns the crates whose licence is not allowed or not understood.
pub fn check(law: &Law, graph: &Metadata) -> Vec<String> {
    let mut findings = Vec::new();
    for package in graph.packages.iter().filter(|p| p.source.is_some()) {
        let Some(licence) = &package.license else {
            findings.push(format!("crate {}: names no licence", package.name));
            continue;
        };
        match Expression::parse_mode(licence, ParseMode::LAX) {
            Err(why) => findings.push(format!("crate {}: \"{licence}\": {why}", package.name)),
            Ok(expression) => {
                let fine = expression.evaluate(|need| {
                    let name = need.to_string();
                    law.licences.allowed.contains(&name)
                });
                if !fine {
                    findings.push(format!("crate {}: licence \"{licence}\"", package.name));
                }
            }
        }
    }
    findings
}
