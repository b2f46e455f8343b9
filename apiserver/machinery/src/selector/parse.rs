//! The grammar of label selectors in a query string.

use std::collections::BTreeSet;

use super::label::{Operator, Requirement, push_key_problem};
use super::lex::{Token, lex};

/// The requirements of `a=b,c in (d,e),!f`.
pub(super) fn selector(text: &str) -> Result<Vec<Requirement>, String> {
    Parser { tokens: lex(text), at: 0 }.selector()
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The current token; `words` reads `in` and `notin` as identifiers.
    fn look(&self, words: bool) -> (Token, &str) {
        let (token, text) = match self.tokens.get(self.at).or(self.tokens.last()) {
            Some((token, text)) => (*token, text.as_str()),
            None => (Token::End, ""),
        };
        if words && matches!(token, Token::In | Token::NotIn) {
            return (Token::Identifier, text);
        }
        (token, text)
    }

    fn take(&mut self, words: bool) -> (Token, String) {
        let (token, text) = self.look(words);
        let taken = (token, text.to_owned());
        self.at += 1;
        taken
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.look(true) {
                (Token::Identifier | Token::Not, _) => {
                    let requirement =
                        self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    requirements.push(requirement);
                    match self.take(true) {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => match self.look(true) {
                            (Token::Identifier | Token::Not, _) => {}
                            (_, text) => {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        },
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.take(true);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take(true);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let mut problems = Vec::new();
        push_key_problem(&mut problems, "<nil>", &key);
        if let Some(problem) = problems.pop() {
            return Err(problem);
        }
        let alone = matches!(self.look(true).0, Token::End | Token::Comma);
        let (operator, values) = if negated {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if alone {
            (Operator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let many = matches!(operator, Operator::In | Operator::NotIn);
            let values = if many { self.values()? } else { self.exact_value()? };
            (operator, values)
        };
        Requirement::new(&key, operator, values.into_iter().collect()).map_err(|e| e.0)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.take(false) {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, text) => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take(true);
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        match self.look(true) {
            (Token::Identifier | Token::Comma, text) => {
                let text = text.to_owned();
                let values = self.list()?;
                if self.take(true).0 != Token::Close {
                    return Err(format!("found '{text}', expected: ')'"));
                }
                Ok(values)
            }
            (Token::Close, _) => {
                self.take(true);
                Ok(BTreeSet::from([String::new()]))
            }
            (_, text) => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// Identifiers and commas up to the closing parenthesis; nothing between two commas is the empty value.
    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take(true) {
                (Token::Identifier, text) => {
                    values.insert(text);
                    match self.look(true) {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    let next = self.look(true).0;
                    if matches!(next, Token::Close | Token::Comma) {
                        values.insert(String::new());
                    }
                    if next == Token::Close {
                        return Ok(values);
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.look(true).0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take(true) {
            (Token::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}
