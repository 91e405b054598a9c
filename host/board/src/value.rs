//! Checks of single values, shared by the checks of all tables.

use crate::error::{Place, Reason};
use crate::memory::range;
use toml::Spanned;

pub fn name_of(name: &Spanned<String>) -> Place<String> {
    let text = name.get_ref();
    let good = text.len() <= 15
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if good { Ok(text.clone()) } else { Err((name.span().start, Reason::Name(text.clone()))) }
}

/// Adds `name` to `taken`; fails if it is there already.
pub fn unique(what: &'static str, name: &Spanned<String>, taken: &mut Vec<String>) -> Place<()> {
    let text = name_of(name)?;
    if taken.contains(&text) {
        return Err((name.span().start, Reason::Duplicate { what, name: text }));
    }
    taken.push(text);
    Ok(())
}

pub fn count(what: &'static str, number: usize, most: usize, at: usize) -> Place<()> {
    if number <= most {
        return Ok(());
    }
    Err((at, range(what, &number.to_string(), &format!("at most {most}"))))
}

pub fn between(what: &'static str, value: &Spanned<u32>, low: u32, high: u32) -> Place<u32> {
    let v = *value.get_ref();
    if (low..=high).contains(&v) {
        return Ok(v);
    }
    Err((value.span().start, range(what, &v.to_string(), &format!("{low} to {high}"))))
}

pub fn sourced(at: usize, source: &str) -> Place<()> {
    if source.is_empty() {
        let why = "source must say where the figure comes from".to_string();
        return Err((at, Reason::Missing(why)));
    }
    Ok(())
}

pub fn take(
    vector: &Spanned<u32>,
    vectors: u32,
    who: String,
    taken: &mut Vec<(u32, String)>,
) -> Place<u32> {
    let v = between("vector", vector, 0, vectors - 1)?;
    if let Some((_, by)) = taken.iter().find(|(t, _)| *t == v) {
        let free = (0..vectors).filter(|v| taken.iter().all(|(t, _)| t != v));
        let free = free.map(|v| v.to_string()).collect::<Vec<_>>().join(", ");
        let free = if free.is_empty() { "none; raise fabric.vectors".to_string() } else { free };
        return Err((vector.span().start, Reason::VectorClash { vector: v, by: by.clone(), free }));
    }
    taken.push((v, who));
    Ok(v)
}
