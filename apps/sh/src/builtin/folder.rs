//! The working directory: `cd`, `pwd`; and `umask`.

use crate::path;
use crate::shell::{Run, Shell};
use crate::system::System;
use penumbra::{Errno, Kind};

impl<S: System> Shell<S> {
    pub(super) fn pwd(&mut self) -> Run {
        let line = format!("{}\n", self.state.folder);
        self.out(line.as_bytes())
    }

    pub(super) fn cd(&mut self, arguments: &[String]) -> Run {
        let mut arguments = arguments.iter().filter(|a| !matches!(a.as_str(), "-L" | "-P" | "--"));
        let (to, show) = match arguments.next().map(String::as_str) {
            None => match self.state.variables.get("HOME") {
                Some(home) => (home.to_string(), false),
                None => ("/".to_string(), false),
            },
            Some("-") => match self.state.variables.get("OLDPWD") {
                Some(before) => (before.to_string(), true),
                None => return self.misused("cd", "OLDPWD is not set"),
            },
            Some(path) => (path.to_string(), false),
        };
        if arguments.next().is_some() {
            return self.misused("cd", "too many arguments");
        }
        let mut found = Err(Errno::NOENT);
        for (folder, shown) in self.candidates(&to) {
            found = self.folder_at(&folder).map(|()| (folder, shown || show));
            if found.is_ok() {
                break;
            }
        }
        match found {
            Ok((folder, show)) => self.go(&folder, show),
            Err(error) => {
                self.say(&format!("cd: {to}: {error}"));
                Ok(1)
            }
        }
    }

    /// Returns the directories that `cd` tries, including those of `CDPATH`, and whether it prints
    /// the one it enters.
    fn candidates(&self, to: &str) -> Vec<(String, bool)> {
        let here = path::normal(&path::absolute(&self.state.folder, to));
        let relative = !to.starts_with('/') && !to.starts_with("./") && !to.starts_with("..");
        let places = self.state.variables.get("CDPATH").filter(|_| relative).unwrap_or_default();
        let mut found: Vec<(String, bool)> = places
            .split(':')
            .filter(|place| !place.is_empty() && *place != ".")
            .map(|place| {
                let place = path::absolute(&self.state.folder, place);
                (path::normal(&path::absolute(&place, to)), true)
            })
            .collect();
        found.push((here, false));
        found
    }

    fn folder_at(&mut self, path: &str) -> Result<(), Errno> {
        match self.system.stat(path, true)?.kind {
            Kind::Directory => Ok(()),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn go(&mut self, folder: &str, show: bool) -> Run {
        let before = std::mem::replace(&mut self.state.folder, folder.to_string());
        self.assign("OLDPWD", &before)?;
        self.assign("PWD", folder)?;
        if show { self.pwd() } else { Ok(0) }
    }

    /// `umask` only remembers the mask: files have no modes here.
    pub(super) fn umask(&mut self, arguments: &[String]) -> Run {
        match arguments.first() {
            None => {
                let line = format!("{:04o}\n", self.state.umask);
                self.out(line.as_bytes())
            }
            Some(text) => match u32::from_str_radix(text, 8) {
                Ok(mask) => {
                    self.state.umask = mask & 0o777;
                    Ok(0)
                }
                Err(_) => self.misused("umask", "requires an octal number"),
            },
        }
    }
}
