//! `export`, `readonly`, `local`, `unset`.

use crate::ast::is_name;
use crate::print::quote;
use crate::shell::{Run, Shell};
use crate::system::System;

impl<S: System> Shell<S> {
    /// `export` and `readonly`.
    pub(super) fn declare(&mut self, name: &str, arguments: &[String]) -> Run {
        let names: Vec<&String> = arguments.iter().filter(|a| *a != "-p" && *a != "--").collect();
        if names.is_empty() {
            let text = self.declared(name);
            return self.out(text.as_bytes());
        }
        let removes = name == "export" && arguments.first().is_some_and(|a| a == "-n");
        let mut status = 0;
        for argument in names.into_iter().filter(|a| *a != "-n") {
            let (variable, value) = match argument.split_once('=') {
                Some((variable, value)) => (variable, Some(value)),
                None => (argument.as_str(), None),
            };
            if !is_name(variable) {
                self.say(&format!("{name}: {variable}: not a valid name"));
                status = 1;
                continue;
            }
            if let Some(value) = value {
                self.assign(variable, value)?;
            }
            match name {
                _ if removes => {
                    let mut copy = self.state.variables.copy(variable).unwrap_or_default();
                    copy.exported = false;
                    self.state.variables.put_back(variable, Some(copy));
                }
                "export" => self.state.variables.export(variable),
                _ => self.state.variables.protect(variable),
            }
        }
        Ok(status)
    }

    fn declared(&self, name: &str) -> String {
        let wanted = self.state.variables.iter().filter(|(_, v)| match name {
            "export" => v.exported,
            _ => v.readonly,
        });
        let shown = wanted.map(|(variable, v)| match &v.value {
            Some(value) => format!("{name} {variable}={}\n", quote(value)),
            None => format!("{name} {variable}\n"),
        });
        shown.collect()
    }

    pub(super) fn local(&mut self, arguments: &[String]) -> Run {
        for argument in arguments {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if !is_name(name) {
                return self.misused("local", &format!("{name}: not a valid name"));
            }
            if !self.state.variables.localize(name) {
                return self.misused("local", "only within a function");
            }
            if let Some(value) = value {
                self.assign(name, value)?;
            }
        }
        Ok(0)
    }

    pub(super) fn unset(&mut self, arguments: &[String]) -> Run {
        let functions = arguments.first().is_some_and(|a| a == "-f");
        let names = arguments.iter().filter(|a| *a != "-f" && *a != "-v");
        let mut status = 0;
        for name in names {
            if functions {
                self.state.functions.remove(name);
            } else if !is_name(name) {
                status = self.misused("unset", &format!("{name}: not a valid name"))?;
            } else if let Err(why) = self.state.variables.unset(name) {
                status = self.misused("unset", &why)?;
            }
        }
        Ok(status)
    }
}
