// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cursor over the text of a script.

/// Why a script can't be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScript {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub text: String,
}

/// The result of a step of the parser.
pub type Parsed<T> = Result<T, BadScript>;

/// The largest time in seconds: an hour.
const LONGEST_S: u64 = 3600;

/// A position in a script.
#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The start of the last token, or of what is next if none was found there.
    token: usize,
}

impl<'a> Scanner<'a> {
    /// Starts at the first character.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            token: 0,
        }
    }

    /// Returns line and column of the last token, each from 1.
    pub fn place(&self) -> (usize, usize) {
        let before = &self.text[..self.token];
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        (line + 1, before[start..].chars().count() + 1)
    }

    /// Returns an error at the last token.
    pub fn error<T>(&self, text: impl Into<String>) -> Parsed<T> {
        self.error_at(self.place(), text)
    }

    /// Returns an error at an earlier place.
    pub fn error_at<T>(
        &self,
        (line, column): (usize, usize),
        text: impl Into<String>,
    ) -> Parsed<T> {
        let text = text.into();
        Err(BadScript { line, column, text })
    }

    /// Returns the text from here on.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Skips white space and comments.
    pub fn skip(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.advance(blank);
            } else if rest.starts_with("//") || rest.starts_with('#') {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.token = self.at;
                match rest.find("*/") {
                    Some(end) => self.advance(end + 2),
                    None => return self.error("a comment without */"),
                }
            } else {
                self.token = self.at;
                return Ok(());
            }
        }
    }

    /// Skips spaces, and returns the next character.
    pub fn peek(&mut self) -> Parsed<Option<char>> {
        self.skip()?;
        Ok(self.rest().chars().next())
    }

    /// Skips spaces, and this text if it is next.
    pub fn take(&mut self, text: &str) -> Parsed<bool> {
        self.skip()?;
        let found = self.rest().starts_with(text);
        if found {
            self.advance(text.len());
        }
        Ok(found)
    }

    /// As [`Scanner::take`], but it must be next.
    pub fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.take(text)? {
            return Ok(());
        }
        let found = self.found();
        self.error(format!("expected {text:?}, found {found}"))
    }

    /// Describes what is next, for messages.
    pub fn found(&self) -> String {
        let word = self.rest().split_whitespace().next().unwrap_or("");
        let short: String = word.chars().take(20).collect();
        if short.is_empty() {
            "the end of the script".into()
        } else {
            format!("{short:?}")
        }
    }

    fn run(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|each| !accept(each)).unwrap_or(rest.len());
        self.advance(length);
        &rest[..length]
    }

    /// Takes characters that `accept` accepts, after spaces; the result may be empty.
    pub fn word(&mut self, accept: impl Fn(char) -> bool) -> Parsed<&'a str> {
        self.skip()?;
        Ok(self.run(accept))
    }

    /// Takes the rest of a string and its end quote, after its first quote. `\\"` is no end.
    pub fn string(&mut self) -> Parsed<&'a str> {
        let rest = self.rest();
        let mut escaped = false;
        for (at, each) in rest.char_indices() {
            match each {
                '"' if !escaped => {
                    self.advance(at + 1);
                    return Ok(&rest[..at]);
                }
                '\n' => break,
                _ => escaped = each == '\\' && !escaped,
            }
        }
        self.error("a string without its end \"")
    }

    /// Takes everything up to this text, and skips the text.
    pub fn take_past(&mut self, end: &str) -> Parsed<&'a str> {
        let rest = self.rest();
        match rest.find(end) {
            Some(at) => {
                self.advance(at + end.len());
                Ok(&rest[..at])
            }
            None => self.error(format!("code without its end {end}")),
        }
    }

    /// Takes a name: a letter or underscore, then letters, digits and underscores.
    pub fn name(&mut self) -> Parsed<Option<&'a str>> {
        self.skip()?;
        let first = self.rest().chars().next();
        if !first.is_some_and(|each| each.is_ascii_alphabetic() || each == '_') {
            return Ok(None);
        }
        Ok(Some(
            self.run(|each| each.is_ascii_alphanumeric() || each == '_'),
        ))
    }

    /// As [`Scanner::take`] for a whole word.
    pub fn keyword(&mut self, word: &str) -> Parsed<bool> {
        self.skip()?;
        let Some(after) = self.rest().strip_prefix(word) else {
            return Ok(false);
        };
        let ends = !after.starts_with(|each: char| each.is_ascii_alphanumeric() || each == '_');
        if ends {
            self.advance(word.len());
        }
        Ok(ends)
    }

    /// Takes an unsigned number that is at most `most`.
    pub fn number(&mut self, what: &str, most: u64) -> Parsed<u64> {
        self.skip()?;
        let found = self.found();
        let digits = self.run(|each| each.is_ascii_digit());
        if digits.is_empty() {
            return self.error(format!("expected {what}, found {found}"));
        }
        match digits.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => self.error(format!("{what} is at most {most}")),
        }
    }

    /// Takes a number of at most 16 bits.
    pub fn half(&mut self, what: &str) -> Parsed<u16> {
        let number = self.number(what, u16::MAX.into())?;
        Ok(u16::try_from(number).expect("it was checked"))
    }

    /// Takes a number of at most 32 bits.
    pub fn whole(&mut self, what: &str) -> Parsed<u32> {
        let number = self.number(what, u32::MAX.into())?;
        Ok(u32::try_from(number).expect("it was checked"))
    }

    /// Takes a time in seconds with up to six decimals; returns microseconds.
    pub fn time(&mut self) -> Parsed<u64> {
        self.skip()?;
        let found = self.found();
        let seconds = self.run(|each| each.is_ascii_digit());
        let mut fraction = "";
        if self.rest().starts_with('.') && !self.rest().starts_with("...") {
            self.advance(1);
            fraction = self.run(|each| each.is_ascii_digit());
        }
        if seconds.is_empty() && fraction.is_empty() {
            return self.error(format!("expected a time in seconds, found {found}"));
        }
        if fraction.len() > 6 {
            return self.error("a time has at most six decimals");
        }
        let whole = if seconds.is_empty() { "0" } else { seconds };
        let Some(whole) = whole
            .parse::<u64>()
            .ok()
            .filter(|whole| *whole <= LONGEST_S)
        else {
            return self.error(format!("a time is at most {LONGEST_S} s"));
        };
        let micros: u64 = format!("{fraction:0<6}").parse().expect("six digits");
        Ok(whole * 1_000_000 + micros)
    }
}
