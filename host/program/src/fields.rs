//! Reads a manifest's tables field by field: each field is taken once, and any field left over is
//! unknown.
//!
//! Hand-written, not derived, so that each error names its field and the allowed values.

use crate::error::{Place, Reason};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum length of each list and table of a manifest.
pub const MOST: usize = 64;

/// A value with its offset.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    at: usize,
    raw: Raw,
}

/// Names and values.
pub type Table = BTreeMap<String, Found>;

/// A TOML value; nested values have offsets too.
#[derive(Clone, Debug, PartialEq)]
enum Raw {
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// Values.
    List(Vec<Found>),
    /// Fields.
    Table(Table),
    /// A value of another type, and that type's name.
    Other(String),
}

/// Parses the text of a manifest.
pub fn read(text: &str) -> Place<Table> {
    let parsed = DeTable::parse(text).map_err(|e| {
        (e.span().map_or(0, |span| span.start), Reason::Syntax(e.message().trim().to_string()))
    })?;
    Ok(table(parsed.get_ref()))
}

fn table(parsed: &DeTable<'_>) -> Table {
    parsed.iter().map(|(name, value)| (name.get_ref().to_string(), found(value))).collect()
}

fn found(value: &Spanned<DeValue<'_>>) -> Found {
    let other = |what: &str| Raw::Other(what.to_string());
    let raw = match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Number(number),
            Err(_) => other(number.as_str()),
        },
        DeValue::Float(number) => other(number.as_str()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Datetime(_) => other("a time"),
        DeValue::Array(list) => Raw::List(list.iter().map(found).collect()),
        DeValue::Table(inner) => Raw::Table(table(inner)),
    };
    Found { at: value.span().start, raw }
}

impl Raw {
    /// Returns the value as shown in errors.
    fn shown(&self) -> String {
        match self {
            Raw::Number(number) => number.to_string(),
            Raw::Flag(flag) => flag.to_string(),
            Raw::Text(text) => format!("{text:?}"),
            Raw::List(_) => "a list".to_string(),
            Raw::Table(_) => "a table".to_string(),
            Raw::Other(what) => what.clone(),
        }
    }
}

/// A field's value, with its full name for errors.
pub struct Field {
    /// Its name, prefixed by those of the enclosing tables.
    pub name: String,
    found: Found,
}

impl Field {
    /// Returns an error with the allowed values.
    pub fn wrong<T>(&self, allowed: &'static str) -> Place<T> {
        let found = self.found.raw.shown();
        Err((self.at(), Reason::Value { field: self.name.clone(), found, allowed }))
    }

    /// Returns its offset.
    pub fn at(&self) -> usize {
        self.found.at
    }

    /// Returns it as true or false, if it is that.
    pub fn flag(&self) -> Option<bool> {
        match self.found.raw {
            Raw::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Returns it as a text.
    pub fn text(&self, allowed: &'static str) -> Place<&str> {
        match &self.found.raw {
            Raw::Text(text) => Ok(text),
            _ => self.wrong(allowed),
        }
    }

    /// Returns it as a number within `range`.
    pub fn number(
        &self,
        range: std::ops::RangeInclusive<i64>,
        allowed: &'static str,
    ) -> Place<i64> {
        match &self.found.raw {
            Raw::Number(number) if range.contains(number) => Ok(*number),
            _ => self.wrong(allowed),
        }
    }

    /// Returns it as a list, each element with a name of its own.
    pub fn list(&self, allowed: &'static str) -> Place<Vec<Field>> {
        let Raw::List(list) = &self.found.raw else { return self.wrong(allowed) };
        let named = |(index, found): (usize, &Found)| Field {
            name: format!("{}[{index}]", self.name),
            found: found.clone(),
        };
        Ok(list.iter().enumerate().map(named).collect())
    }

    /// Returns it as a list of at most [`MOST`] elements.
    pub fn short_list(&self, allowed: &'static str) -> Place<Vec<Field>> {
        let list = self.list(allowed)?;
        if list.len() > MOST {
            return self.wrong("a list of at most 64");
        }
        Ok(list)
    }

    /// Returns it as a table with these fields and no others.
    pub fn table(&self, known: &[&str], allowed: &'static str) -> Place<Fields> {
        let Raw::Table(table) = &self.found.raw else { return self.wrong(allowed) };
        let within = format!("{}.", self.name);
        Fields::of(table.clone(), known, within, self.at())
    }

    /// Returns it as a table with any fields.
    pub fn entries(&self, allowed: &'static str) -> Place<Vec<(String, Field)>> {
        let Raw::Table(table) = &self.found.raw else { return self.wrong(allowed) };
        let named = |(key, found): (&String, &Found)| {
            (key.clone(), Field { name: format!("{}.{key}", self.name), found: found.clone() })
        };
        Ok(table.iter().map(named).collect())
    }
}

/// A table with known fields.
pub struct Fields {
    table: Table,
    within: String,
    at: usize,
}

impl Fields {
    /// Creates the table; `within` is the prefix of its fields' names.
    pub fn of(table: Table, known: &[&str], within: String, at: usize) -> Place<Self> {
        let stranger = table.iter().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, value)) = stranger {
            let unknown =
                Reason::Unknown { field: format!("{within}{name}"), known: known.join(", ") };
            return Err((value.at, unknown));
        }
        Ok(Self { table, within, at })
    }

    /// Takes the field `name`, if it exists.
    pub fn take(&mut self, name: &str) -> Option<Field> {
        let found = self.table.remove(name)?;
        Some(Field { name: format!("{}{name}", self.within), found })
    }

    /// Takes the field `name`, which is required.
    pub fn need(&mut self, name: &str, allowed: &'static str) -> Place<Field> {
        let field = format!("{}{name}", self.within);
        self.take(name).ok_or((self.at, Reason::Missing { field, allowed }))
    }
}
