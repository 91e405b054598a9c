//! `set` and `shift`: options and positional parameters.

use crate::print::quote;
use crate::shell::{OPTIONS, Run, Shell};
use crate::system::System;

impl<S: System> Shell<S> {
    pub(super) fn set(&mut self, arguments: &[String]) -> Run {
        if arguments.is_empty() {
            let shown = self.state.variables.iter().filter_map(|(name, variable)| {
                Some(format!("{name}={}\n", quote(variable.value.as_ref()?)))
            });
            let text: String = shown.collect();
            return self.out(text.as_bytes());
        }
        let mut rest = arguments;
        while let Some((first, more)) = rest.split_first() {
            let on = first.starts_with('-');
            if first == "--" {
                self.state.arguments = more.to_vec();
                return Ok(0);
            }
            if first.len() < 2 || !(on || first.starts_with('+')) {
                break;
            }
            rest = more;
            for letter in first.chars().skip(1) {
                if letter == 'o' {
                    let Some((name, more)) = rest.split_first() else {
                        return self.show_options(on);
                    };
                    rest = more;
                    let Some(letter) = letter_of(name) else {
                        return self.misused("set", &format!("{name}: no such option"));
                    };
                    self.state.options.set(letter, on);
                } else if letter == 'i' || !self.state.options.set(letter, on) {
                    return self.misused("set", &format!("{first}: no such option"));
                }
            }
        }
        if !rest.is_empty() {
            self.state.arguments = rest.to_vec();
        }
        Ok(0)
    }

    fn show_options(&mut self, words: bool) -> Run {
        let options = self.state.options;
        let shown = OPTIONS.iter().map(|(letter, name)| match (words, options.has(*letter)) {
            (true, on) => format!("{name:<12} {}\n", if on { "on" } else { "off" }),
            (false, on) => format!("set {}o {name}\n", if on { '-' } else { '+' }),
        });
        let text: String = shown.collect();
        self.out(text.as_bytes())
    }

    pub(super) fn shift(&mut self, arguments: &[String]) -> Run {
        let by = match arguments.first().map(|a| a.parse::<usize>()) {
            None => 1,
            Some(Ok(by)) => by,
            Some(Err(_)) => return self.misused("shift", "requires a number"),
        };
        if by > self.state.arguments.len() {
            self.say("shift: more than there are parameters");
            return Ok(1);
        }
        self.state.arguments.drain(..by);
        Ok(0)
    }

    /// `let EXPRESSION...`: succeeds if the last value is not 0.
    pub(super) fn let_(&mut self, arguments: &[String]) -> Run {
        let mut value = 0;
        for text in arguments {
            value = self.arithmetic(text)?;
        }
        Ok(u32::from(value == 0))
    }
}

fn letter_of(name: &str) -> Option<char> {
    OPTIONS.iter().find(|(_, long)| *long == name).map(|(letter, _)| *letter)
}
