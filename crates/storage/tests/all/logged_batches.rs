//! A logged batch over several shards is applied whole, also when the node stops in the middle.

use std::sync::{Arc, Mutex};

use espalier_mutation::Mutation;
use espalier_runtime::{file::FileSystem, random::Generator};

use crate::support::{shards::on_shards, *};

const PARTS: usize = 6;

#[test]
fn all_or_nothing_over_shards_and_crashes() {
    let mut file_system = FileSystem::simulated(1);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
    })
    .unwrap();
    let (mut whole, mut none) = (0, 0);
    for seed in 0..25 {
        let mut random = Generator::from_seed(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        let cut_after = random.below(150);
        let power = disk.clone();
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let noted = acknowledged.clone();
        on_shards(3, &file_system, configuration(), move |database| {
            let (noted, power) = (noted.clone(), power.clone());
            async move {
                power.power_off_after(cut_after);
                let narrow = table(&database, "narrow");
                for batch in 0..20 {
                    let mut mutation = Mutation::default();
                    for part in 0..PARTS {
                        let name = format!("{seed}/{batch}/{part}");
                        let one = insert(&narrow, &name, None, 1, &[("v", "1")]);
                        mutation.updates.extend(one.updates);
                    }
                    if database.apply_logged_batch(mutation).await.is_err() {
                        return;
                    }
                    noted.lock().unwrap().push(batch);
                }
            }
        })
        .unwrap();
        file_system = FileSystem::on(disk.crash(seed));
        let acknowledged = acknowledged.lock().unwrap().clone();
        let counts = on_shards(2, &file_system, configuration(), move |database| async move {
            let narrow = table(&database, "narrow");
            let mut counts = vec![0; 20];
            for partition in read_all(&database, &narrow).await.partitions {
                let name = String::from_utf8(partition.key.key.to_vec()).unwrap();
                let numbers: Vec<u64> = name.split('/').map(|n| n.parse().unwrap()).collect();
                if numbers[0] == seed {
                    counts[numbers[1] as usize] += 1;
                }
            }
            let batches = database.schema().table("system", "batches").unwrap().clone();
            let left = read_all(&database, &batches).await.partitions.len();
            assert_eq!(left, 0, "notes of finished batches are removed");
            counts
        })
        .unwrap();
        for (batch, count) in counts.iter().enumerate() {
            assert!([0, PARTS].contains(count), "seed {seed}: {count} parts of batch {batch}");
            assert!(*count == PARTS || !acknowledged.contains(&batch), "seed {seed} batch {batch}");
            match count {
                0 => none += 1,
                _ => whole += 1,
            }
        }
    }
    assert!(whole > 20 && none > 20, "{whole} whole, {none} none: the cuts fall in between");
}
