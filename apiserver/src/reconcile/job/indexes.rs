//! Sets of indexes as a Job's status writes them: `1,3-5,7`.

use std::fmt;

/// Ordered intervals, both ends included, with a gap between any two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Reads indexes below `completions`; what cannot be read is left out.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
            (0 <= first && first <= last && first < completions).then(|| (first, last.min(completions - 1)))
        };
        Self::joined(text.split(',').filter_map(interval).collect())
    }

    fn joined(mut intervals: Vec<(i64, i64)>) -> Self {
        intervals.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match joined.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// Both together.
    #[must_use]
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::joined(self.0.iter().chain(&other.0).copied().collect())
    }

    /// How many there are.
    pub(super) fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether an index is among them.
    pub(super) fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// How many are in both.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let (mut a, mut b, mut common) = (0, 0, 0);
        while let (Some(x), Some(y)) = (self.0.get(a), other.0.get(b)) {
            common += (x.1.min(y.1) - x.0.max(y.0) + 1).max(0);
            if x.1 < y.1 { a += 1 } else { b += 1 }
        }
        common
    }

    /// The first `count` below `completions` that are not among them.
    pub(super) fn missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        let end = (completions, completions);
        for (first, last) in self.0.iter().copied().chain([end]) {
            let room = count - missing.len();
            missing.extend((next..first.min(completions)).take(room));
            next = last + 1;
        }
        missing
    }
}

impl FromIterator<i64> for Indexes {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Self {
        Self::joined(indexes.into_iter().map(|index| (index, index)).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["", "0", "0,1", "1,3-5,7", "0-99"] {
            assert_eq!(Indexes::parse(text, 100).to_string(), text);
        }
        assert_eq!(Indexes::parse("3-9,x,20", 6).to_string(), "3-5");
        assert_eq!([4, 2, 3, 9].into_iter().collect::<Indexes>().to_string(), "2-4,9");
    }

    #[test]
    fn they_are_counted_joined_and_compared() {
        let some = Indexes::parse("1,3-5,7", 10);
        assert_eq!(some.total(), 5);
        assert!(some.has(4) && some.has(7) && !some.has(2) && !some.has(8));
        assert_eq!(some.union(&Indexes::parse("2,6", 10)).to_string(), "1-7");
        assert_eq!(some.common(&Indexes::parse("0-3,7-9", 10)), 3);
        assert_eq!(some.missing(3, 10), [0, 2, 6]);
        assert_eq!(some.missing(9, 10), [0, 2, 6, 8, 9]);
        assert_eq!(Indexes::default().missing(2, 1_000_000), [0, 1]);
    }
}
