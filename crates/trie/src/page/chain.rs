//! Chains: nodes with one child that follow one another, as in long keys with a common prefix.
//!
//! The writer puts the child of such a node directly before the node. The distance then fits in
//! half a byte, and the node has two bytes: header and transition. A reader compares all nodes of a
//! chain on a page with the key in one loop, instead of opening one node after another.

use super::layout::PAGE_SIZE;

/// Header of a node whose only child has two bytes and lies directly before it.
const LINK: u8 = 0x12;

/// Bytes of such a node.
const LINK_BYTES: usize = 2;

/// Follows `key` along the links from `position` on that lie on `page`. Returns the position after
/// them, and the rest of the key.
#[inline]
pub(super) fn follow_links<'key>(page: &[u8], position: u64, key: &'key [u8]) -> (u64, &'key [u8]) {
    let count = followed_links(page, position, key);
    let way = (LINK_BYTES * count) as u64;
    (position.saturating_sub(way), key.get(count..).unwrap_or_default())
}

/// Counts the nodes from `position` on that are links, that `key` follows, and that lie on `page`
/// with their child. The child of the last one is `2 * count` bytes before `position`.
#[inline]
fn followed_links(page: &[u8], position: u64, key: &[u8]) -> usize {
    let offset = (position % PAGE_SIZE as u64) as usize;
    // The node at the offset, and whole nodes before it; the first bytes of the page may be part of
    // another node.
    let Some(nodes) = page.get(offset % LINK_BYTES..offset + LINK_BYTES) else { return 0 };
    let links = nodes.rchunks_exact(LINK_BYTES).zip(key);
    let count = links.take_while(|(node, byte)| **node == [LINK, **byte]).count();
    // The last node's child may lie on the page before; then the general descent follows it.
    count.min(offset / LINK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_page_and_key_go() {
        let key = b"abcdefgh";
        // The first link is at offset 4094; each further link lies before the previous one.
        let page = |links: usize| {
            let mut page = vec![0u8; PAGE_SIZE];
            for (index, byte) in key.iter().cycle().take(links).enumerate() {
                let at = PAGE_SIZE - 2 * (index + 1);
                page[at..at + 2].copy_from_slice(&[LINK, *byte]);
            }
            page
        };
        let at = |offset: usize| (7 * PAGE_SIZE + offset) as u64;
        let last = PAGE_SIZE - 2;
        assert_eq!(followed_links(&page(5), at(last), key), 5);
        assert_eq!(followed_links(&page(8), at(last), &key[..3]), 3);
        assert_eq!(followed_links(&page(8), at(last), b"abcx"), 3);
        assert_eq!(followed_links(&page(8), at(last - 2), b"bcd"), 3);
        assert_eq!(followed_links(&page(0), at(last), key), 0);
        assert_eq!(followed_links(&page(5), at(last), b""), 0);
        // The start is odd, or it has no bytes before or behind it.
        assert_eq!(followed_links(&page(8), at(last + 1), key), 0);
        assert_eq!(followed_links(&page(8), at(last - 1), key), 0);
        assert_eq!(followed_links(&[LINK, b'a'], 0, key), 0);
        assert_eq!(followed_links(&[LINK], 0, key), 0);
        assert_eq!(followed_links(&[], at(last), key), 0);
        // The links fill the page. The child of the node at its start is on another page.
        let long: Vec<u8> = key.iter().copied().cycle().take(PAGE_SIZE).collect();
        assert_eq!(followed_links(&page(PAGE_SIZE / 2), at(last), &long), PAGE_SIZE / 2 - 1);
        let mut odd = page(PAGE_SIZE / 2);
        odd.rotate_left(1);
        assert_eq!(followed_links(&odd, at(last - 1), &long), PAGE_SIZE / 2 - 2);
    }
}
