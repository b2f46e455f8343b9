//! Whether something is as expected.

use serde_json::Value;

/// Stands for anything in a line, and in a line of its own for any lines.
const ANYTHING: &str = "…";

/// What of an answer is not as expected; nothing when all is.
pub(super) fn differs(expected: &Value, found: Option<&Value>, path: &str) -> Option<String> {
    let shown = || found.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let wrong = || Some(format!("{path}: expected {expected}, found {}", shown()));
    match (expected, found) {
        (Value::Null, None | Some(Value::Null)) => None,
        (Value::Object(fields), Some(Value::Object(there))) => {
            fields.iter().find_map(|(name, value)| differs(value, there.get(name), &format!("{path}.{name}")))
        }
        (Value::Array(items), Some(Value::Array(there))) if items.len() == there.len() => {
            let mut pairs = items.iter().zip(there).enumerate();
            pairs.find_map(|(at, (item, there))| differs(item, Some(there), &format!("{path}[{at}]")))
        }
        (Value::String(text), Some(Value::String(there))) if matches(text, there) => None,
        (expected, Some(there)) if expected == there => None,
        _ => wrong(),
    }
}

/// Whether a text is as expected; trailing blanks of lines mean nothing.
pub(super) fn matches(expected: &str, found: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    lines_match(&lines(expected), &lines(found))
}

fn lines_match(expected: &[String], found: &[String]) -> bool {
    match expected {
        [] => found.is_empty(),
        [first, rest @ ..] if first == ANYTHING => {
            (0..=found.len()).any(|skip| lines_match(rest, &found[skip..]))
        }
        [first, rest @ ..] => found
            .split_first()
            .is_some_and(|(line, left)| line_matches(first, line) && lines_match(rest, left)),
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let Some((head, tail)) = expected.split_once(ANYTHING) else { return expected == found };
    let Some(rest) = found.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| line_matches(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn anything_stands_for_a_part_of_a_line_or_for_lines() {
        assert!(matches("a  b", "a  b\n") && matches("AGE\n…s", "AGE   \n12s\n"));
        assert!(matches("first\n…\nlast", "first\n1\n2\nlast") && matches("first\n…\nlast", "first\nlast"));
        assert!(!matches("a", "a\nb") && !matches("a…", "b") && !matches("…\na", "a\nb"));
    }

    #[test]
    fn an_answer_may_hold_more_than_expected() {
        let found = json!({"kind": "A", "list": [{"name": "x", "uid": "1"}]});
        let wrong = |expected: Value| differs(&expected, Some(&found), "");
        assert_eq!(wrong(json!({"kind": "A", "gone": null, "list": [{"name": "…"}]})), None);
        assert_eq!(wrong(json!({"kind": "B"})).unwrap(), ".kind: expected \"B\", found \"A\"");
        assert_eq!(wrong(json!({"uid": "1"})).unwrap(), ".uid: expected \"1\", found nothing");
        assert!(wrong(json!({"list": []})).is_some());
    }
}
