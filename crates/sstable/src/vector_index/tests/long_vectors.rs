//! Vectors with very many components, and very long ones.

use super::*;

#[test]
fn the_longest_vectors_of_a_column_have_a_description() {
    let (mut longest, position) = description();
    longest.segments.clear();
    // The types allow values of 2^31-1 bytes.
    longest.dimension = (i32::MAX / 4).cast_unsigned();
    assert_eq!(decoded(&longest, position).unwrap(), longest);
}

#[test]
fn a_code_whose_square_overflows_can_be_read() {
    block_on(async {
        let similarity = Similarity::Euclidean;
        // The center is the first vectors. The square of the distance to vectors 12 to 19 is
        // 4.2e38; the others behind them are in a segment of floats.
        let component = (1_u64 << 56) as f32;
        let vector = |index: usize| vec![if index < 12 { component } else { -component }; 20_000];
        let vectors: Vec<Vec<f32>> = (0..30).map(vector).collect();
        assert!(similarity.check(vectors[0].iter().copied()).is_ok());
        let file_system = FileSystem::simulated(1);
        let written = written(&file_system, similarity, &vectors, &CODES).await;
        let index = opened(&file_system, &written.0, &written.1).await.unwrap();
        let search = NearestSearch { count: 30, width: 0, widths: 1, graph_cost: 60 };
        let nearest = index.vectors(true).unwrap().nearest(&vectors[0], search).await.unwrap();
        let near = nearest.found.iter().filter(|found| found.similarity > 0.5).count();
        assert_eq!((nearest.found.len(), near), (30, 12));
    });
}
