use crate::replication::rehearsal::{World, spread};

#[test]
fn what_is_written_is_read_by_everybody() {
    for count in [1, 2, 3, 5, 7] {
        let places = spread(count);
        let mut world = World::ring(&places);
        for (at, n) in places.iter().enumerate() {
            let key = format!("key-{at}");
            assert_eq!(world.get(*n, &key), None);
            world.put(*n, &key, "first");
            world.put(places[0], &key, "second");
            for reader in &places {
                assert_eq!(world.get(*reader, &key), Some("second".to_owned()), "{count} members");
            }
        }
    }
}
