//! Reads the table of kinds.

use std::sync::Arc;

use super::{ALL_VERBS, Column, ColumnSource, FieldSelector, NameRule, Resource, Stored, Subresource};
use crate::gvk::{GroupResource, GroupVersionKind};
use crate::jsonpath::JsonPath;
use crate::schema::{Schema, SchemaRef, TypeName};
use crate::types;

const TABLE: &str = include_str!("../types/kinds.txt");

/// The API group of a package of the table of types.
pub(crate) fn api_group(package: &'static str) -> &'static str {
    rows("group").find(|(known, _)| *known == package).map_or(package, |(_, group)| group)
}

/// The package of an API group.
pub(super) fn package(api_group: &str) -> &str {
    rows("group").find(|(_, group)| *group == api_group).map_or(api_group, |(package, _)| package)
}

fn rows(word: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' ')?.split_once(' '))
}

/// All resources of the table.
pub(super) fn read() -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in TABLE.lines() {
        if let Some(row) = line.strip_prefix("kind ") {
            resources.extend(kind(row));
        } else if let (Some(row), Some(resource)) = (line.strip_prefix(' '), resources.last_mut()) {
            detail(resource, row);
        }
    }
    for resource in &mut resources {
        resource.subresources.sort_by(|a, b| a.name.cmp(&b.name));
    }
    resources
}

fn kind(row: &'static str) -> Option<Resource> {
    let mut words = row.split(' ');
    let (ty, plural) = (words.next()?, words.next()?);
    let id = identity(ty)?;
    let mut resource = Resource {
        group: id.group.clone(),
        version: id.version.clone(),
        kind: id.kind.clone(),
        list_kind: format!("{}List", id.kind).into(),
        plural: plural.into(),
        singular: id.kind.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: ALL_VERBS.iter().map(|&verb| verb.into()).collect(),
        subresources: Vec::new(),
        schema: TypeName::find(ty)
            .map_or_else(|| SchemaRef::from(Schema::anything().clone()), SchemaRef::Type),
        columns: Vec::new(),
        field_selectors: Vec::new(),
        has_status: false,
        counts_generation: false,
        creates_on_update: false,
        unconditional_update: true,
        name_rule: NameRule::default(),
        stored: None,
        custom: false,
        scale: None,
        deprecation: None,
    };
    for word in words {
        flag(&mut resource, word, ty);
    }
    Some(resource)
}

fn flag(resource: &mut Resource, word: &'static str, ty: &'static str) {
    let list = |text: &'static str| text.split(',').map(Arc::from).collect();
    match word.split_once('=').unwrap_or((word, "")) {
        ("ns", _) => resource.namespaced = true,
        ("generation", _) => resource.counts_generation = true,
        ("upsert", _) => resource.creates_on_update = true,
        ("strict", _) => resource.unconditional_update = false,
        ("short", names) => resource.short_names = list(names),
        ("cat", names) => resource.categories = list(names),
        ("verbs", names) => resource.verbs = list(names),
        ("name", rule) => {
            resource.name_rule = match rule {
                "label" => NameRule::Label,
                "dns1035" => NameRule::Dns1035,
                "path" => NameRule::PathSegment,
                "address" => NameRule::Address,
                _ => NameRule::Subdomain,
            };
        }
        ("status", _) => {
            resource.has_status = true;
            resource.subresources.extend(subresource("status", ty, "get,patch,update"));
        }
        ("store", kept) => {
            resource.stored = identity(kept).map(|kind| Stored {
                resource: GroupResource::new(kind.group.clone(), resource.plural.clone()),
                kind,
                renames: Vec::new(),
            });
        }
        _ => {}
    }
}

fn detail(resource: &mut Resource, row: &'static str) {
    let Some((word, rest)) = row.split_once(' ') else { return };
    match word {
        "sub" => {
            let mut words = rest.split(' ');
            if let (Some(name), Some(ty), Some(verbs)) = (words.next(), words.next(), words.next()) {
                resource.subresources.extend(subresource(name, ty, verbs));
            }
        }
        "select" => resource.field_selectors.extend(rest.split(' ').map(|word| {
            let (label, paths) = word.split_once('=').unwrap_or((word, word));
            FieldSelector { label: label.into(), paths: paths.split('|').map(Arc::from).collect() }
        })),
        "rename" => {
            if let (Some((ours, theirs)), Some(stored)) = (rest.split_once(' '), resource.stored.as_mut()) {
                stored.renames.push((ours.into(), theirs.into()));
            }
        }
        "col" => resource.columns.extend(column(rest)),
        _ => {}
    }
}

fn subresource(name: &'static str, ty: &'static str, verbs: &'static str) -> Option<Subresource> {
    let id = identity(ty)?;
    Some(Subresource {
        name: name.into(),
        group: id.group,
        version: id.version,
        kind: id.kind,
        verbs: verbs.split(',').map(Arc::from).collect(),
        schema: TypeName::find(ty),
    })
}

fn identity(ty: &'static str) -> Option<GroupVersionKind> {
    let (package, version, kind) = types::parts(ty)?;
    Some(GroupVersionKind::new(api_group(package), version, kind))
}

/// The column of every object's name.
pub(super) fn name_column() -> Column {
    Column {
        name: "Name".into(),
        ty: "string".into(),
        format: "name".into(),
        description: "Name of the object, unique within its namespace and kind.".into(),
        priority: 0,
        source: ColumnSource::Path { path: JsonPath::fields("metadata.name"), absent: "".into() },
    }
}

/// The column of every object's age.
pub(super) fn age_column() -> Column {
    Column {
        name: "Age".into(),
        ty: "string".into(),
        format: "".into(),
        description: "Time since the object was created.".into(),
        priority: 0,
        source: ColumnSource::Age,
    }
}

fn column(row: &'static str) -> Option<Column> {
    match row {
        "Name" => return Some(name_column()),
        "Age" => return Some(age_column()),
        _ => {}
    }
    let mut words = row.split('|');
    let (name, ty, priority, source) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let absent = words.next().unwrap_or("");
    let source = match source.strip_prefix('@') {
        Some(printer) => ColumnSource::Printer(printer.into()),
        None => ColumnSource::Path { path: JsonPath::fields(source), absent: absent.into() },
    };
    Some(Column {
        name: name.into(),
        ty: ty.into(),
        format: if name == "Name" { "name".into() } else { "".into() },
        description: "".into(),
        priority: priority.parse().unwrap_or(0),
        source,
    })
}
