//! The watch over the memory that readers ask for.

#[test]
fn it_sees_what_is_asked_for_at_once() {
    motes_fuzz::watch::begin();
    assert!(motes_fuzz::watch::largest() < 1 << 20);
    let large = vec![1u8; 64 << 20];
    assert!(motes_fuzz::watch::largest() >= large.len());
    motes_fuzz::watch::begin();
    assert!(motes_fuzz::watch::largest() < 1 << 20);
}
