//! Bounds the memory of each answer until it is sent, and of all answers together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Maximum number of bytes of one answer (arbitrary).
const MAX_BYTES_OF_ANSWER: usize = 32 << 20;
/// Maximum number of bytes of all answers that are not sent yet (arbitrary).
const MAX_BYTES: usize = 128 << 20;

/// The bytes of all answers.
#[derive(Clone, Debug, Default)]
pub struct AnswerBudget(Arc<AtomicUsize>);

/// The bytes of one answer. The drop returns them to the budget.
#[derive(Debug)]
pub struct AnswerBytes {
    budget: AnswerBudget,
    taken: usize,
}

impl AnswerBudget {
    pub(crate) fn answer(&self) -> AnswerBytes {
        AnswerBytes { budget: self.clone(), taken: 0 }
    }
}

impl AnswerBytes {
    /// Sets the bytes that the answer takes.
    ///
    /// # Errors
    ///
    /// Fails with a text if the answer exceeds its bound, or all answers exceed theirs.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), &'static str> {
        let all = &self.budget.0;
        if bytes < self.taken {
            all.fetch_sub(self.taken - bytes, Relaxed);
            self.taken = bytes;
            return Ok(());
        }
        if bytes > MAX_BYTES_OF_ANSWER {
            return Err("an answer exceeds 32 MiB");
        }
        let more = bytes - self.taken;
        if all.fetch_add(more, Relaxed) + more > MAX_BYTES {
            all.fetch_sub(more, Relaxed);
            return Err("the answers exceed 128 MiB together");
        }
        self.taken = bytes;
        Ok(())
    }
}

impl Drop for AnswerBytes {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.taken, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_a_bound_and_return_their_bytes() {
        let budget = AnswerBudget::default();
        let mut answers: Vec<_> = (0..5).map(|_| budget.answer()).collect();
        assert!(answers[0].set(MAX_BYTES_OF_ANSWER + 1).is_err());
        for answer in &mut answers[..4] {
            answer.set(MAX_BYTES_OF_ANSWER).unwrap();
        }
        assert!(answers[4].set(1).is_err());
        answers[0].set(10).unwrap();
        answers[4].set(1).unwrap();
        drop(answers);
        assert_eq!(budget.0.load(Relaxed), 0);
    }
}
