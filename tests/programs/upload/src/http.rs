//! Requests and answers of HTTP/1, as bytes. The crate `httparse` reads the lines of a head.
//!
//! Contract: a head that is not understood, or asks for what is not served, becomes the [`Answer`]
//! that says why.

use httparse::{Error, Header, Status};
use png_decoder::pixels::Format;

/// Longest head of a request, in bytes.
const LONGEST: usize = 8_192;
/// Most lines of a head.
const LINES: usize = 64;
/// Largest file, in bytes: the block of a message of the contract.
const LARGEST: usize = 4 << 20;
/// Width or height of a thumbnail, whichever is larger, if the request does not say, and at most.
const SIZE: u32 = 64;
const MOST_SIZE: u32 = 1_024;
const USAGE: &str = "POST a PNG file to /thumbnail.ppm or /thumbnail.pgm (grey), with ?size=N";

/// What a client wants of its picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// RGB or grey.
    pub format: Format,
    /// At most as wide and high, in pixels.
    pub size: u32,
}

/// A request whose head has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of its head.
    pub head: usize,
    /// Bytes of the file that follow.
    pub body: usize,
    /// What becomes of the file.
    pub wanted: Wanted,
    /// Whether the client sends the file only after [`CONTINUE`].
    pub waits: bool,
    /// Whether another request may follow.
    pub continues: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    status: u16,
    body: Vec<u8>,
    kind: &'static str,
}

impl Answer {
    /// Returns a thumbnail.
    pub const fn picture(body: Vec<u8>, format: Format) -> Answer {
        let kind = match format {
            Format::Grey => "image/x-portable-graymap",
            Format::Rgb | Format::Rgba => "image/x-portable-pixmap",
        };
        Answer { status: 200, body, kind }
    }

    /// Returns an answer that is a line of text.
    pub fn text(status: u16, text: &str) -> Answer {
        Answer { status, body: format!("{text}\n").into_bytes(), kind: "text/plain" }
    }

    /// Returns it as bytes. `continues`: another request may follow.
    pub fn bytes(&self, continues: bool) -> Vec<u8> {
        let (status, length) = (self.status, self.body.len());
        let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
        head += &format!("Content-Type: {}\r\nContent-Length: {length}\r\n", self.kind);
        match status {
            405 => head += "Allow: POST\r\n",
            503 => head += "Retry-After: 1\r\n",
            _ => {}
        }
        if !continues {
            head += "Connection: close\r\n";
        }
        head += "\r\n";
        [head.as_bytes(), &self.body].concat()
    }
}

/// What a client that waits gets before it sends the file.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Bad Request",
    }
}

/// Reads the head of a request; `None`: more of it must come.
pub fn parse(received: &[u8]) -> Result<Option<Request>, Answer> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    let head = match request.parse(received) {
        Ok(Status::Complete(head)) if head <= LONGEST => head,
        Ok(Status::Partial) if received.len() <= LONGEST => return Ok(None),
        Ok(_) | Err(Error::TooManyHeaders) => {
            return Err(Answer::text(431, "the head of the request is too long"));
        }
        Err(why) => return Err(Answer::text(400, &why.to_string())),
    };
    let wanted = wanted(request.path.unwrap_or_default())?;
    if request.method != Some("POST") {
        return Err(Answer::text(405, USAGE));
    }
    let body = body(request.headers)?;
    let waits = match named(request.headers, "Expect").next() {
        None => false,
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => true,
        Some(_) => return Err(Answer::text(417, "it can only expect 100-continue")),
    };
    let is_last = |value: &[u8]| value.eq_ignore_ascii_case(b"close");
    let continues =
        request.version == Some(1) && !named(request.headers, "Connection").any(is_last);
    Ok(Some(Request { head, body, wanted, waits, continues }))
}

/// Returns the values of all lines with this name.
fn named<'a>(lines: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().filter(move |line| line.name.eq_ignore_ascii_case(name)).map(|line| line.value)
}

/// Returns the length of the file.
fn body(lines: &[Header<'_>]) -> Result<usize, Answer> {
    let mut lengths = named(lines, "Content-Length");
    let (length, other) = (lengths.next(), lengths.next());
    if named(lines, "Transfer-Encoding").next().is_some() || length.is_none() {
        return Err(Answer::text(411, "it must have a Content-Length"));
    }
    let digits = length.filter(|it| other.is_none() && it.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|it| str::from_utf8(it).ok()?.parse::<u64>().ok());
    match length {
        None => Err(Answer::text(400, "Content-Length must be one number")),
        Some(length) if length > LARGEST as u64 => {
            Err(Answer::text(413, &format!("{length} bytes; at most {LARGEST}")))
        }
        Some(length) => Ok(length as usize),
    }
}

/// Returns what a path asks for.
fn wanted(path: &str) -> Result<Wanted, Answer> {
    let (path, question) = path.split_once('?').unwrap_or((path, ""));
    let format = match path {
        "/thumbnail.ppm" => Format::Rgb,
        "/thumbnail.pgm" => Format::Grey,
        _ => return Err(Answer::text(404, USAGE)),
    };
    let size = match question {
        "" => Some(SIZE),
        question => question.strip_prefix("size=").and_then(|size| size.parse().ok()),
    };
    match size.filter(|size| (1..=MOST_SIZE).contains(size)) {
        Some(size) => Ok(Wanted { format, size }),
        None => Err(Answer::text(400, &format!("size must be 1 to {MOST_SIZE}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /thumbnail.pgm?size=9 HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n";

    fn status(head: &str) -> u16 {
        parse(head.as_bytes()).unwrap_err().status
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let whole = format!("{HEAD}\r\n");
        for length in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..length]), Ok(None), "{length}");
        }
        let wanted = Wanted { format: Format::Grey, size: 9 };
        let request =
            Request { head: whole.len(), body: 12, wanted, waits: false, continues: true };
        assert_eq!(parse(format!("{whole}the file").as_bytes()), Ok(Some(request)));
    }

    #[test]
    fn a_client_can_wait_and_can_say_that_it_is_done() {
        let read = |head: &str| parse(head.as_bytes()).unwrap().unwrap();
        let both = read(&format!("{HEAD}expect: 100-Continue\r\nCONNECTION: Close\r\n\r\n"));
        assert!(both.waits && !both.continues);
        assert!(!read(&format!("{HEAD}\r\n").replace("/1.1", "/1.0")).continues);
    }

    #[test]
    fn what_is_not_served_is_answered() {
        for (lines, wanted) in [
            ("GET /thumbnail.ppm HTTP/1.1\r\n\r\n", 405),
            ("GET / HTTP/1.1\r\n\r\n", 404),
            ("POST /thumbnail.ppm?size=0 HTTP/1.1\r\n\r\n", 400),
            ("POST /thumbnail.ppm?size=1025 HTTP/1.1\r\n\r\n", 400),
            ("POST /thumbnail.ppm?width=3 HTTP/1.1\r\n\r\n", 400),
            ("POST /thumbnail.ppm HTTP/1.1\r\n\r\n", 411),
            ("POST /thumbnail.ppm HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("POST /thumbnail.ppm HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("POST /thumbnail.ppm HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n", 413),
            ("no request\r\n\r\n", 400),
        ] {
            assert_eq!(status(lines), wanted, "{lines}");
        }
        assert_eq!(status(&format!("{HEAD}Content-Length: 12\r\n\r\n")), 400);
        assert_eq!(status(&format!("{HEAD}Expect: more\r\n\r\n")), 417);
    }

    #[test]
    fn a_head_has_a_bound() {
        assert_eq!(status(&format!("{HEAD}A: {}", "a".repeat(LONGEST))), 431);
        assert_eq!(status(&format!("{HEAD}{}\r\n", "A: a\r\n".repeat(LINES))), 431);
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let answer = Answer::text(503, "later");
        let wanted = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
                      Content-Length: 6\r\nRetry-After: 1\r\nConnection: close\r\n\r\nlater\n";
        assert_eq!(answer.bytes(false), wanted.as_bytes());
        let short = wanted.replace("Connection: close\r\n", "");
        assert_eq!(answer.bytes(true), short.as_bytes());
    }
}
