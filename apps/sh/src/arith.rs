//! Arithmetic expansion: C's expressions over 64-bit wrapping numbers, with variables by name.

/// Maximum nesting of operators.
const DEPTH: u32 = 64;

/// Access to the shell's variables.
pub(crate) trait Variables {
    /// Returns a variable's text; `None` if it is unset.
    fn get(&self, name: &str) -> Option<String>;
    /// Assigns a number to a variable.
    fn set(&mut self, name: &str, value: i64) -> Result<(), String>;
}

/// Evaluates `text`; an empty text is 0.
pub(crate) fn evaluate(text: &str, variables: &mut dyn Variables) -> Result<i64, String> {
    evaluate_at(text, variables, 0)
}

fn evaluate_at(text: &str, variables: &mut dyn Variables, depth: u32) -> Result<i64, String> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(0);
    }
    let mut reader = Reader { tokens, at: 0, variables, depth, off: 0 };
    let value = reader.comma()?;
    match reader.tokens.get(reader.at) {
        None => Ok(value),
        Some(token) => Err(format!("unexpected {} in an expression", token.shown())),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(i64),
    Name(String),
    Op(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Number(n) => n.to_string(),
            Token::Name(name) => format!("`{name}`"),
            Token::Op(op) => format!("`{op}`"),
        }
    }
}

/// Longest first, so that the first match is the right one.
const OPERATORS: &[&str] = &[
    "<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=", "-=", "*=",
    "/=", "%=", "&=", "^=", "|=", "+", "-", "*", "/", "%", "<", ">", "=", "&", "^", "|", "!", "~",
    "?", ":", ",", "(", ")",
];

/// Binary operators by precedence, lowest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text.trim_start();
    let mut found = Vec::new();
    while let Some(c) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '#';
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(end);
        if c.is_ascii_digit() {
            found.push(Token::Number(number(head)?));
            rest = tail.trim_start();
        } else if c.is_ascii_alphabetic() || c == '_' {
            found.push(Token::Name(head.to_string()));
            rest = tail.trim_start();
        } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
            found.push(Token::Op(op));
            rest = rest.get(op.len()..).unwrap_or_default().trim_start();
        } else {
            return Err(format!("unexpected `{c}` in an expression"));
        }
    }
    Ok(found)
}

/// Parses a number: decimal, `0x`, `0` octal, or `base#digits`.
fn number(text: &str) -> Result<i64, String> {
    let bad = || format!("`{text}` is not a number");
    let (radix, digits) = if let Some((base, digits)) = text.split_once('#') {
        let radix: u32 = base.parse().map_err(|_| bad())?;
        (radix, digits)
    } else if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        (16, digits)
    } else if text.len() > 1 && text.starts_with('0') {
        (8, text)
    } else {
        (10, text)
    };
    if !(2..=36).contains(&radix) {
        return Err(bad());
    }
    let mut value = 0i64;
    for c in digits.chars() {
        let digit = c.to_digit(radix).ok_or_else(bad)?;
        value = value.wrapping_mul(i64::from(radix)).wrapping_add(i64::from(digit));
    }
    if digits.is_empty() { Err(bad()) } else { Ok(value) }
}

struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    variables: &'a mut dyn Variables,
    depth: u32,
    /// Above 0: the expression is only parsed, because its result is not needed (`&&`, `||`, `?:`).
    off: u32,
}

impl Reader<'_> {
    fn op(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Op(op)) => Some(op),
            _ => None,
        }
    }

    fn eat(&mut self, op: &str) -> bool {
        let there = self.op() == Some(op);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, op: &str) -> Result<(), String> {
        if self.eat(op) { Ok(()) } else { Err(format!("`{op}` is missing in an expression")) }
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= DEPTH {
            return Err("too many levels in an expression".to_string());
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn comma(&mut self) -> Result<i64, String> {
        let mut value = self.assignment()?;
        while self.eat(",") {
            value = self.assignment()?;
        }
        Ok(value)
    }

    fn assignment(&mut self) -> Result<i64, String> {
        if let (Some(Token::Name(name)), Some(Token::Op(op))) =
            (self.tokens.get(self.at), self.tokens.get(self.at + 1))
            && let Some(inner) = op.strip_suffix('=')
            && !matches!(*op, "==" | "!=" | "<=" | ">=")
        {
            let name = name.clone();
            self.at += 2;
            let right = self.deeper(Self::assignment)?;
            let value = match inner {
                "" => right,
                inner => {
                    let left = self.variable(&name)?;
                    self.binary(inner, left, right)?
                }
            };
            return self.store(&name, value);
        }
        self.conditional()
    }

    fn store(&mut self, name: &str, value: i64) -> Result<i64, String> {
        if self.off == 0 {
            self.variables.set(name, value)?;
        }
        Ok(value)
    }

    fn conditional(&mut self) -> Result<i64, String> {
        let condition = self.level(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.silent(condition == 0, |r| r.deeper(Self::comma))?;
        self.expect(":")?;
        let no = self.silent(condition != 0, |r| r.deeper(Self::conditional))?;
        Ok(if condition != 0 { yes } else { no })
    }

    /// Parses `inner`; with `off`, without evaluating it.
    fn silent<T>(&mut self, off: bool, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.off += u32::from(off);
        let result = inner(self);
        self.off -= u32::from(off);
        result
    }

    fn level(&mut self, level: usize) -> Result<i64, String> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some(op) = self.op().filter(|op| ops.contains(op)) {
            self.at += 1;
            let known = (op == "&&" && left == 0) || (op == "||" && left != 0);
            let right = self.silent(known, |r| r.level(level + 1))?;
            left = self.binary(op, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, String> {
        match self.op() {
            Some(op @ ("++" | "--")) => {
                if let Some(Token::Name(name)) = self.tokens.get(self.at + 1) {
                    let name = name.clone();
                    self.at += 2;
                    let value = self.variable(&name)?.wrapping_add(step(op));
                    return self.store(&name, value);
                }
                // `--5` is a minus applied twice.
                self.at += 1;
                self.deeper(Self::unary)
            }
            Some(op @ ("-" | "+" | "!" | "~")) => {
                self.at += 1;
                let value = self.deeper(Self::unary)?;
                Ok(match op {
                    "-" => value.wrapping_neg(),
                    "!" => i64::from(value == 0),
                    "~" => !value,
                    _ => value,
                })
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Result<i64, String> {
        match self.tokens.get(self.at).cloned() {
            Some(Token::Number(value)) => {
                self.at += 1;
                Ok(value)
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                let value = self.variable(&name)?;
                if let Some(op @ ("++" | "--")) = self.op() {
                    self.at += 1;
                    self.store(&name, value.wrapping_add(step(op)))?;
                }
                Ok(value)
            }
            Some(Token::Op("(")) => {
                self.at += 1;
                let value = self.deeper(Self::comma)?;
                self.expect(")")?;
                Ok(value)
            }
            Some(token) => Err(format!("unexpected {} in an expression", token.shown())),
            None => Err("an expression ends too early".to_string()),
        }
    }

    /// Returns a variable's value, whose text may be an expression.
    fn variable(&mut self, name: &str) -> Result<i64, String> {
        if self.off > 0 {
            return Ok(0);
        }
        let Some(text) = self.variables.get(name) else { return Ok(0) };
        let trimmed = text.trim();
        if let Ok(value) = trimmed.parse::<i64>()
            && !(trimmed.len() > 1 && trimmed.trim_start_matches('-').starts_with('0'))
        {
            return Ok(value);
        }
        if self.depth >= DEPTH {
            return Err(format!("{name}: too many levels in an expression"));
        }
        evaluate_at(&text, self.variables, self.depth + 8)
    }

    fn binary(&self, op: &str, left: i64, right: i64) -> Result<i64, String> {
        let truth = |b: bool| Ok(i64::from(b));
        match op {
            "||" => truth(left != 0 || right != 0),
            "&&" => truth(left != 0 && right != 0),
            "|" => Ok(left | right),
            "^" => Ok(left ^ right),
            "&" => Ok(left & right),
            "==" => truth(left == right),
            "!=" => truth(left != right),
            "<" => truth(left < right),
            ">" => truth(left > right),
            "<=" => truth(left <= right),
            ">=" => truth(left >= right),
            "<<" => Ok(left.wrapping_shl(right as u32)),
            ">>" => Ok(left.wrapping_shr(right as u32)),
            "+" => Ok(left.wrapping_add(right)),
            "-" => Ok(left.wrapping_sub(right)),
            "*" => Ok(left.wrapping_mul(right)),
            _ if right == 0 && self.off > 0 => Ok(0),
            _ if right == 0 => Err("division by zero".to_string()),
            "/" => Ok(left.wrapping_div(right)),
            _ => Ok(left.wrapping_rem(right)),
        }
    }
}

fn step(op: &str) -> i64 {
    if op == "++" { 1 } else { -1 }
}

#[cfg(test)]
mod tests;
