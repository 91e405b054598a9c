//! A table of a manifest, field by field: each is taken once, what nobody took is unknown.
//!
//! By hand and not derived, so that each refusal names its field and says what is allowed there.

use crate::error::{Place, Reason};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    at: usize,
    raw: Raw,
}

/// Names and values.
pub type Table = BTreeMap<String, Found>;

/// A value of TOML; everything inside has its place too.
#[derive(Clone, Debug, PartialEq)]
enum Raw {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
    /// Values.
    List(Vec<Found>),
    /// Fields.
    Table(Table),
    /// Something that no field is: what it is.
    Other(String),
}

/// What the text of a manifest says.
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
        DeValue::Boolean(flag) => other(&flag.to_string()),
        DeValue::Datetime(_) => other("a time"),
        DeValue::Array(list) => Raw::List(list.iter().map(found).collect()),
        DeValue::Table(inner) => Raw::Table(table(inner)),
    };
    Found { at: value.span().start, raw }
}

impl Raw {
    /// As an error shows it.
    fn shown(&self) -> String {
        match self {
            Raw::Number(number) => number.to_string(),
            Raw::Text(text) => format!("{text:?}"),
            Raw::List(_) => "a list".to_string(),
            Raw::Table(_) => "a table".to_string(),
            Raw::Other(what) => what.clone(),
        }
    }
}

/// A field's value, with the name that errors give it.
pub struct Field {
    /// Its name, with those of the tables around it.
    pub name: String,
    found: Found,
}

impl Field {
    /// It is not what it must be.
    pub fn wrong<T>(&self, allowed: &'static str) -> Place<T> {
        let found = self.found.raw.shown();
        Err((self.at(), Reason::Value { field: self.name.clone(), found, allowed }))
    }

    /// Its place.
    pub fn at(&self) -> usize {
        self.found.at
    }

    /// As a text.
    pub fn text(&self, allowed: &'static str) -> Place<&str> {
        match &self.found.raw {
            Raw::Text(text) => Ok(text),
            _ => self.wrong(allowed),
        }
    }

    /// As a number within `range`.
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

    /// As a list, each with a name of its own.
    pub fn list(&self, allowed: &'static str) -> Place<Vec<Field>> {
        let Raw::List(list) = &self.found.raw else { return self.wrong(allowed) };
        let named = |(index, found): (usize, &Found)| Field {
            name: format!("{}[{index}]", self.name),
            found: found.clone(),
        };
        Ok(list.iter().enumerate().map(named).collect())
    }

    /// As a table with these fields and no others.
    pub fn table(&self, known: &[&str], allowed: &'static str) -> Place<Fields> {
        let Raw::Table(table) = &self.found.raw else { return self.wrong(allowed) };
        let within = format!("{}.", self.name);
        Fields::of(table.clone(), known, within, self.at())
    }

    /// As a table with any fields.
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
    /// `within` is what the names of its fields begin with.
    pub fn of(table: Table, known: &[&str], within: String, at: usize) -> Place<Self> {
        let stranger = table.iter().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, value)) = stranger {
            let unknown =
                Reason::Unknown { field: format!("{within}{name}"), known: known.join(", ") };
            return Err((value.at, unknown));
        }
        Ok(Self { table, within, at })
    }

    /// The field `name`, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Field> {
        let found = self.table.remove(name)?;
        Some(Field { name: format!("{}{name}", self.within), found })
    }

    /// The same where it must be there.
    pub fn need(&mut self, name: &str, allowed: &'static str) -> Place<Field> {
        let field = format!("{}{name}", self.within);
        self.take(name).ok_or((self.at, Reason::Missing { field, allowed }))
    }
}
