//! A set of fields: a tree whose nodes may or may not be members themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::PathElement;

/// A set of paths into an object. The empty path (the object itself) is never a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSet {
    members: BTreeSet<PathElement>,
    children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of one or more paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds a path; its parents are not added.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether the path itself is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.contains(rest)),
        }
    }

    /// No members at all.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// The members of this level.
    pub fn members(&self) -> &BTreeSet<PathElement> {
        &self.members
    }

    /// The nodes below this level.
    pub fn children(&self) -> &BTreeMap<PathElement, FieldSet> {
        &self.children
    }

    /// The members below one step, seen from there.
    pub fn below(&self, element: &PathElement) -> Option<&FieldSet> {
        self.children.get(element)
    }

    pub(super) fn put_member(&mut self, element: PathElement) {
        self.members.insert(element);
    }

    pub(super) fn put_child(&mut self, element: PathElement, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    /// Adds everything of `child` below one step.
    pub(crate) fn adopt(&mut self, element: PathElement, child: FieldSet) {
        self.put_child(element, child);
    }

    /// Members of either.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut result = self.clone();
        result.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let node = result.children.entry(element.clone()).or_default();
            *node = node.union(child);
        }
        result
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut result = FieldSet {
            members: self.members.intersection(&other.members).cloned().collect(),
            ..FieldSet::default()
        };
        for (element, child) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                result.put_child(element.clone(), child.intersection(theirs));
            }
        }
        result
    }

    /// Members of this set that are none of `other`; a parent in `other` takes nothing from below it.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut result = FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            ..FieldSet::default()
        };
        for (element, child) in &self.children {
            let left = other.children.get(element).map(|theirs| child.difference(theirs));
            result.put_child(element.clone(), left.unwrap_or_else(|| child.clone()));
        }
        result
    }

    /// Like [`FieldSet::difference`], but a member of `other` takes everything below it too.
    #[must_use]
    pub fn difference_with_children(&self, other: &FieldSet) -> FieldSet {
        let mut result = FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            ..FieldSet::default()
        };
        for (element, child) in self.children.iter().filter(|(e, _)| !other.members.contains(e)) {
            let left = other.children.get(element).map(|theirs| child.difference_with_children(theirs));
            result.put_child(element.clone(), left.unwrap_or_else(|| child.clone()));
        }
        result
    }

    /// Only what is at or below the field `name`.
    #[must_use]
    pub fn only(&self, name: &str) -> FieldSet {
        let element = PathElement::field(name);
        let mut result = FieldSet::default();
        if self.members.contains(&element) {
            result.members.insert(element.clone());
        }
        if let Some(child) = self.children.get(&element) {
            result.put_child(element, child.clone());
        }
        result
    }

    /// Every path of the set, parents before what is below them.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, paths);
            prefix.pop();
        }
    }
}
