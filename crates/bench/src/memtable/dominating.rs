//! Measures a skewed workload: a part of all writes goes to one partition, and each other write has
//! its own partition ("Trie Memtables in Cassandra", Lambov, VLDB 2022, figure 13).

use espalier_runtime::random::Generator;

use super::Bench;
use super::block::Data;
use super::keys::Population;
use super::points;
use super::record::Measure;
use crate::BenchError;

impl Bench<'_> {
    /// Measures writes and reads with each percentage of writes to the dominating partition. Reads
    /// follow the same distribution.
    pub(super) async fn dominating(&mut self) -> Result<(), BenchError> {
        let arguments = self.arguments;
        for &percent in &arguments.dominating {
            for round in 1..=arguments.rounds {
                for kind in &arguments.kinds {
                    self.dominated(u64::from(percent), kind, round).await?;
                }
            }
        }
        Ok(())
    }

    async fn dominated(&mut self, percent: u64, kind: &str, round: u32) -> Result<(), BenchError> {
        let arguments = self.arguments;
        let population = Population::Dominated { percent };
        let data = Data {
            population,
            count: arguments.partitions,
            value_bytes: arguments.value_bytes as usize,
        };
        let keys = format!("{percent} % in one");
        let mut random = Generator::from_seed(arguments.seed);
        let table = self.table(kind, population).await?;
        let (node, record, progress) = (&self.node, &mut self.record, &mut self.progress);
        let what = |measure| {
            format!("{measure}, {keys} partition, {kind}, round {round} of {}", arguments.rounds)
        };
        let mut step = progress.step(what("write"), data.count);
        let written = points::write(node, &table, &data, &mut step).await?;
        record.add(&keys, kind, Measure::Write, written);
        let mut step = progress.step(what("read"), arguments.reads);
        let read =
            points::read(node, &table, &data, arguments.reads, false, &mut random, &mut step)
                .await?;
        record.add(&keys, kind, Measure::ReadHit, read);
        table.drop(&self.node).await
    }
}
