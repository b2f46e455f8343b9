//! Which start of the machine this is: what is in the kernel does not outlive one.

/// The kernel's number of it; empty when it cannot be read.
pub(crate) fn id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

/// Whether something noted at one start is of the other; when nobody can tell, it is not.
pub(crate) fn is_same(noted: &str, now: &str) -> bool {
    !noted.is_empty() && noted == now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_nobody_knows_is_another_one() {
        assert!(is_same(&id(), &id()), "{:?}", id());
        assert!(!is_same("a", "b"));
        assert!(!is_same("", ""));
    }
}
