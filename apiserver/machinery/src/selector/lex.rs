//! Tokens of a label selector. `in` and `notin` are words that may also be keys or values.

/// One token with the text it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A run of special characters that is no operator.
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

fn operator(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// All tokens of `text`, the last one being [`Token::End`].
pub(super) fn lex(text: &str) -> Vec<(Token, String)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(blank);
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, String::new()));
            return tokens;
        };
        let (token, length, literal) = if special(first) { scan_special(rest) } else { scan_word(rest) };
        tokens.push((token, literal));
        rest = &rest[length..];
    }
}

/// The longest operator at the front: `=` then `==`, never beyond the first text that is none.
fn scan_special(text: &str) -> (Token, usize, String) {
    let run = text.find(|c| !special(c)).unwrap_or(text.len());
    let mut found = None;
    for end in 1..=run {
        match operator(&text[..end]) {
            Some(token) => found = Some((token, end)),
            None if found.is_some() => break,
            None => {}
        }
    }
    match found {
        Some((token, end)) => (token, end, text[..end].to_owned()),
        None => (Token::Error, run, format!("error expected: keyword found '{}'", &text[..run])),
    }
}

fn scan_word(text: &str) -> (Token, usize, String) {
    let end = text.find(|c| special(c) || blank(c)).unwrap_or(text.len());
    let token = match &text[..end] {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    (token, end, text[..end].to_owned())
}
