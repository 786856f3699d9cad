// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subset of HTTP/1.1 (RFC 9112) that the server and a client need.

use alloc::format;
use alloc::vec::Vec;

/// The maximum length of the head of a request or response.
pub const LARGEST_HEAD: usize = 8192;

/// The resource of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The page.
    Page,
    /// This number of bytes.
    Bytes(u64),
}

/// A request that the server responds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The resource.
    pub target: Target,
    /// Whether the connection is persistent.
    pub keep_alive: bool,
}

/// The result of parsing received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A request and its length.
    Request(Request, usize),
    /// An incomplete request.
    Partial,
    /// Not a supported request.
    Bad,
}

/// Returns the length of a head including its empty line.
fn head_of(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b'\n') {
        let next = from + at + 1;
        match &bytes[next..] {
            [b'\r', b'\n', ..] => return Some(next + 2),
            [b'\n', ..] => return Some(next + 1),
            _ => from = next,
        }
    }
    None
}

/// Returns the values of a field; names are compared without case.
fn values<'a>(head: &'a [u8], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    head.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(move |line| {
            let (field, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            field
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| value.trim_ascii())
        })
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Parses the request at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let Some(length) = head_of(bytes) else {
        return if bytes.len() > LARGEST_HEAD {
            Parsed::Bad
        } else {
            Parsed::Partial
        };
    };
    match length <= LARGEST_HEAD {
        true => request(&bytes[..length]).map_or(Parsed::Bad, |it| Parsed::Request(it, length)),
        false => Parsed::Bad,
    }
}

fn request(head: &[u8]) -> Option<Request> {
    let line = head.split(|byte| *byte == b'\n').next()?.trim_ascii_end();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if method != b"GET" || words.next().is_some() || !target.starts_with(b"/") {
        return None;
    }
    // A request body would have to be skipped; it is not supported.
    if values(head, "content-length").any(|length| number(length) != Some(0))
        || values(head, "transfer-encoding").next().is_some()
    {
        return None;
    }
    let has_option = |what: &str| {
        values(head, "connection").any(|value| {
            value
                .split(|byte| *byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(what.as_bytes()))
        })
    };
    let keep_alive = match version {
        b"HTTP/1.1" => !has_option("close"),
        b"HTTP/1.0" => has_option("keep-alive"),
        _ => return None,
    };
    let target = match target.strip_prefix(b"/bytes/") {
        Some(size) => Target::Bytes(number(size)?),
        None => Target::Page,
    };
    Some(Request { target, keep_alive })
}

/// Writes the head of a response to `out`.
pub fn head(out: &mut Vec<u8>, status: &str, length: u64, keep_alive: bool) {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

/// A response that is being received.
#[derive(Debug, Default)]
pub struct Response {
    head: Vec<u8>,
    /// The remaining bytes of the body, once the head is complete.
    left: Option<u64>,
}

impl Response {
    /// Processes bytes; returns how many belong to this response, and whether it is complete.
    ///
    /// # Errors
    ///
    /// The status is not 200, or the length is missing.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), &'static str> {
        let mut used = 0;
        let left = match self.left {
            Some(left) => left,
            None if self.head.is_empty() && head_of(bytes).is_some() => {
                used = head_of(bytes).unwrap_or(0);
                length_of(&bytes[..used])?
            }
            None => {
                let before = self.head.len();
                self.head.extend_from_slice(bytes);
                let Some(length) = head_of(&self.head) else {
                    return match self.head.len() > LARGEST_HEAD {
                        true => Err("a head that is too long"),
                        false => Ok((bytes.len(), false)),
                    };
                };
                used = length - before;
                let left = length_of(&self.head[..length])?;
                self.head.clear();
                left
            }
        };
        let body = left.min((bytes.len() - used) as u64);
        let left = left - body;
        self.left = (left > 0).then_some(left);
        Ok((used + body as usize, left == 0))
    }
}

fn length_of(head: &[u8]) -> Result<u64, &'static str> {
    if !head.starts_with(b"HTTP/1.1 200 ") && !head.starts_with(b"HTTP/1.0 200 ") {
        return Err("a status other than 200");
    }
    values(head, "content-length")
        .next()
        .and_then(number)
        .ok_or("no length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keep_alive: bool) -> Request {
        Request {
            target: Target::Page,
            keep_alive,
        }
    }

    #[test]
    fn requests_of_both_versions() {
        let of = |text: &str| match parse(text.as_bytes()) {
            Parsed::Request(request, length) => {
                assert_eq!(length, text.len());
                Some(request)
            }
            _ => None,
        };
        assert_eq!(of("GET / HTTP/1.0\r\n\r\n"), Some(page(false)));
        assert_eq!(
            of("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\n\r\n"),
            Some(page(true))
        );
        assert_eq!(of("GET /x HTTP/1.1\r\nHost: a\r\n\r\n"), Some(page(true)));
        assert_eq!(
            of("GET /x HTTP/1.1\r\nconnection:foo, CLOSE\r\n\r\n"),
            Some(page(false))
        );
        assert_eq!(of("GET / HTTP/1.0\n\n"), Some(page(false)));
        let bytes = Request {
            target: Target::Bytes(70_000),
            keep_alive: true,
        };
        assert_eq!(of("GET /bytes/70000 HTTP/1.1\r\n\r\n"), Some(bytes));
    }

    #[test]
    fn what_is_not_answered() {
        for text in [
            "POST / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET /\r\n\r\n",
            "GET /bytes/x HTTP/1.1\r\n\r\n",
            "GET /bytes/ HTTP/1.1\r\n\r\n",
            "GET /bytes/99999999999999999999 HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Bad, "{text:?}");
        }
        assert_eq!(parse(&[b'x'; LARGEST_HEAD]), Parsed::Partial);
        assert_eq!(parse(&[b'x'; LARGEST_HEAD + 1]), Parsed::Bad);
    }

    #[test]
    fn every_beginning_of_a_request_is_partial_and_a_second_one_is_left() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), Parsed::Partial, "{end}");
        }
        let two = [&text[..], &text[..]].concat();
        assert_eq!(parse(&two), Parsed::Request(page(true), text.len()));
    }

    #[test]
    fn a_response_in_any_pieces() {
        let mut whole = Vec::new();
        head(&mut whole, "200 OK", 5, true);
        whole.extend_from_slice(b"hello");
        let length = whole.len();
        whole.extend_from_slice(b"HTTP"); // the next one
        for cut in 1..length {
            let mut response = Response::default();
            for _ in 0..2 {
                let (used, complete) = response.take(&whole[..cut]).unwrap();
                assert_eq!((used, complete), (cut, false));
                let (used, complete) = response.take(&whole[cut..]).unwrap();
                assert_eq!((used, complete), (length - cut, true), "{cut}");
            }
        }
        assert_eq!(Response::default().take(&whole), Ok((length, true)));
    }

    #[test]
    fn responses_that_are_none() {
        let take = |text: &str| Response::default().take(text.as_bytes());
        assert_eq!(
            take("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
            Err("a status other than 200")
        );
        assert_eq!(take("HTTP/1.1 200 OK\r\n\r\n"), Err("no length"));
        assert_eq!(
            take("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            Ok((38, true))
        );
    }
}
