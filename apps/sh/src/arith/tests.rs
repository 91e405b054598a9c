//! Expressions and their values.

use super::*;
use std::collections::BTreeMap;

#[derive(Default)]
struct Some_(BTreeMap<String, String>);

impl Variables for Some_ {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
    fn set(&mut self, name: &str, value: i64) -> Result<(), String> {
        self.0.insert(name.to_string(), value.to_string());
        Ok(())
    }
}

fn value(text: &str) -> Result<i64, String> {
    evaluate(text, &mut Some_(BTreeMap::from([("x".to_string(), "5".to_string())])))
}

#[test]
fn operators_bind_as_in_c() {
    let cases = [
        ("", 0),
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("7/2", 3),
        ("-7/2", -3),
        ("7%3", 1),
        ("1<<4", 16),
        ("1<2", 1),
        ("2<=1", 0),
        ("1==1", 1),
        ("1!=1", 0),
        ("5&3", 1),
        ("5|3", 7),
        ("5^3", 6),
        ("!0", 1),
        ("!5", 0),
        ("~0", -1),
        ("1&&0", 0),
        ("1||0", 1),
        ("1?2:3", 2),
        ("0?2:3", 3),
        ("0?1:0?2:3", 3),
        ("x", 5),
        ("x+1", 6),
        ("y", 0),
        ("x=3,x*2", 6),
        ("x+=2", 7),
        ("x++", 5),
        ("++x", 6),
        ("x--,x", 4),
        ("0x1f", 31),
        ("010", 8),
        ("2#101", 5),
        ("- - 3", 3),
        ("--3", 3),
        ("1 + 2 - 3 - 4", -4),
        ("2*3%4", 2),
        ("x=y=4", 4),
        ("10-2-3", 5),
        ("1,2", 2),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_does_not_count_is_not_done() {
    assert_eq!(value("0 && 1/0"), Ok(0));
    assert_eq!(value("1 || 1/0"), Ok(1));
    assert_eq!(value("1 ? 2 : 1/0"), Ok(2));
    assert_eq!(value("(0 && (x=9)), x"), Ok(5));
}

#[test]
fn numbers_wrap_and_nothing_panics() {
    assert_eq!(value("9223372036854775807+1"), Ok(i64::MIN));
    assert_eq!(value("(-9223372036854775807-1)/-1"), Ok(i64::MIN));
    assert_eq!(value("(-9223372036854775807-1)%-1"), Ok(0));
    assert_eq!(value("1<<64"), Ok(1));
    assert_eq!(value("1>>-1"), Ok(0));
    for text in ["1/0", "1%0", "1+", "(1", "1)", "08", "1a", "$", "1 2", "2#3", "40#1", "x=", "?"] {
        assert!(value(text).is_err(), "{text}");
    }
    assert!(value(&"(".repeat(1000)).is_err());
    assert!(value(&"-".repeat(1000)).is_err());
}

#[test]
fn a_variable_that_names_itself_ends() {
    let mut variables = Some_(BTreeMap::from([
        ("a".to_string(), "b".to_string()),
        ("b".to_string(), "a".to_string()),
        ("c".to_string(), "d+1".to_string()),
        ("d".to_string(), "4".to_string()),
    ]));
    assert!(evaluate("a", &mut variables).is_err());
    assert_eq!(evaluate("c", &mut variables), Ok(5));
}
