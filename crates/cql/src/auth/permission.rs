//! Permissions and sets of them.

use std::fmt;

/// A permission on a resource, in Cassandra's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

impl Permission {
    /// All permissions in their order.
    pub const ALL: [Self; 10] = [
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Select,
        Self::Modify,
        Self::Authorize,
        Self::Describe,
        Self::Execute,
        Self::Unmask,
        Self::SelectMasked,
    ];

    /// Returns the name in `system_auth.role_permissions`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Alter => "ALTER",
            Self::Drop => "DROP",
            Self::Select => "SELECT",
            Self::Modify => "MODIFY",
            Self::Authorize => "AUTHORIZE",
            Self::Describe => "DESCRIBE",
            Self::Execute => "EXECUTE",
            Self::Unmask => "UNMASK",
            Self::SelectMasked => "SELECT_MASKED",
        }
    }

    /// Returns the permission of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionSet(u16);

impl PermissionSet {
    /// Creates the set of some permissions.
    pub const fn of(permissions: &[Permission]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < permissions.len() {
            bits |= 1 << permissions[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Returns whether the set has a permission.
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u16) != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the permissions that at least one of the sets has.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the permissions that both sets have.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the permissions of this set that the other set lacks.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the permissions in their order.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.has(*permission))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().fold(Self::default(), |set, one| set.union(Self::of(&[one])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets_go_both_ways() {
        for permission in Permission::ALL {
            assert_eq!(Permission::from_name(permission.name()), Some(permission));
            let set = PermissionSet::of(&[permission]);
            assert_eq!(set.iter().collect::<Vec<_>>(), [permission]);
        }
        assert_eq!(Permission::from_name("select"), None);
        let both: PermissionSet = [Permission::Modify, Permission::Create].into_iter().collect();
        assert_eq!(both.iter().collect::<Vec<_>>(), [Permission::Create, Permission::Modify]);
        assert!(both.without(both).is_empty());
    }
}
