//! Variables: values, export and read-only attributes, local scopes.

use crate::arith;
use std::collections::BTreeMap;

/// A variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variable {
    /// `None`: it has attributes only.
    pub value: Option<String>,
    pub exported: bool,
    pub readonly: bool,
}

/// All variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    all: BTreeMap<String, Variable>,
    /// For each function being executed, the previous values of its local variables.
    scopes: Vec<Vec<(String, Option<Variable>)>>,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all.get(name)?.value.as_deref()
    }

    /// Sets a variable; the error says why it failed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let variable = self.writable(name)?;
        variable.value = Some(value.to_string());
        Ok(())
    }

    fn writable(&mut self, name: &str) -> Result<&mut Variable, String> {
        let variable = self.all.entry(name.to_string()).or_default();
        if variable.readonly { Err(format!("{name}: is read only")) } else { Ok(variable) }
    }

    pub fn unset(&mut self, name: &str) -> Result<(), String> {
        if self.all.get(name).is_some_and(|v| v.readonly) {
            return Err(format!("{name}: is read only"));
        }
        self.all.remove(name);
        Ok(())
    }

    pub fn export(&mut self, name: &str) {
        self.all.entry(name.to_string()).or_default().exported = true;
    }

    pub fn protect(&mut self, name: &str) {
        self.all.entry(name.to_string()).or_default().readonly = true;
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &Variable)> {
        self.all.iter()
    }

    /// Returns the environment of programs.
    pub fn exported(&self) -> Vec<(String, String)> {
        let exported = self.all.iter().filter(|(_, v)| v.exported);
        exported.filter_map(|(n, v)| Some((n.clone(), v.value.clone()?))).collect()
    }

    /// Returns a copy of a variable, to be restored later.
    pub fn copy(&self, name: &str) -> Option<Variable> {
        self.all.get(name).cloned()
    }

    pub fn put_back(&mut self, name: &str, variable: Option<Variable>) {
        match variable {
            Some(variable) => self.all.insert(name.to_string(), variable),
            None => self.all.remove(name),
        };
    }

    /// Enters a function.
    pub fn enter(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Leaves a function, restoring its local variables.
    pub fn leave(&mut self) {
        for (name, before) in self.scopes.pop().unwrap_or_default().into_iter().rev() {
            self.put_back(&name, before);
        }
    }

    /// Makes a variable local to the current function. Returns false outside of functions.
    pub fn localize(&mut self, name: &str) -> bool {
        let before = self.copy(name);
        let Some(scope) = self.scopes.last_mut() else { return false };
        if !scope.iter().any(|(n, _)| n == name) {
            scope.push((name.to_string(), before));
        }
        true
    }
}

impl arith::Variables for Variables {
    fn get(&self, name: &str) -> Option<String> {
        Variables::get(self, name).map(str::to_string)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), String> {
        Variables::set(self, name, &value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locals_end_with_their_function() {
        let mut variables = Variables::default();
        variables.set("x", "1").unwrap();
        assert!(!variables.localize("x"));
        variables.enter();
        assert!(variables.localize("x") && variables.localize("y"));
        variables.set("x", "2").unwrap();
        variables.set("y", "3").unwrap();
        variables.leave();
        assert_eq!((variables.get("x"), variables.get("y")), (Some("1"), None));
    }

    #[test]
    fn what_is_protected_stays() {
        let mut variables = Variables::default();
        variables.set("x", "1").unwrap();
        variables.protect("x");
        assert!(variables.set("x", "2").is_err() && variables.unset("x").is_err());
        assert_eq!(variables.get("x"), Some("1"));
    }
}
