//! Building dicts, lists and tuples from what lies on the stack.

use std::io::Read;

use super::{MARK_LIMIT, Machine, Mark, PickleError, Problem, Sink, Step, Value};

impl<R: Read, S: Sink> Machine<'_, R, S> {
    #[inline(always)]
    pub(super) fn mark(&mut self) -> Step {
        if self.marks.len() == MARK_LIMIT {
            return Err(self.error(Problem::TooDeep { limit: MARK_LIMIT }));
        }
        self.marks.push(Mark {
            height: self.stack.len(),
            offset: self.opcode_at,
        });
        Ok(())
    }

    #[inline(always)]
    pub(super) fn pop_mark(&mut self) -> Result<Mark, PickleError> {
        match self.marks.pop() {
            Some(mark) => Ok(mark),
            None => Err(self.error(Problem::StackUnderflow)),
        }
    }

    /// The container that lies below the values from `height` on.
    #[inline(always)]
    pub(super) fn below(&self, height: usize) -> Result<Value, PickleError> {
        if height <= self.floor() {
            return Err(self.error(Problem::StackUnderflow));
        }
        Ok(self.store.value(self.stack[height - 1]))
    }

    #[inline(always)]
    pub(super) fn set_items(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let target = self.below(mark.height)?;
        self.fill_dict(target, mark)
    }

    /// Moves the pairs above a mark into a dict, offering them to the sink first.
    #[inline(always)]
    pub(super) fn fill_dict(&mut self, target: Value, mark: Mark) -> Step {
        let dict = self.plain_dict(target, mark.offset)?;
        let pairs = &self.stack[mark.height..];
        if !pairs.len().is_multiple_of(2) {
            return Err(self.error(Problem::OddPairs));
        }
        let record = if self.store.is_empty_dict(dict) {
            self.quick.interrupted();
            self.sink.dict(pairs, &mut self.store)
        } else {
            None
        };
        match record {
            Some(record) => self.store.set_record(dict, record),
            None => self.store.add_pairs(dict, mark.offset, pairs)?,
        }
        self.stack.truncate(mark.height);
        Ok(())
    }

    /// The dict that pairs are to be added to by what stands at `offset`.
    #[inline(always)]
    fn plain_dict(&self, target: Value, offset: u64) -> Result<u32, PickleError> {
        match target {
            Value::Dict(dict) => Ok(dict),
            Value::Record(_) => Err(PickleError {
                offset,
                problem: Problem::ChangedAfterUse,
            }),
            _ => Err(self.error(Problem::WrongContainer { wanted: "dict" })),
        }
    }

    /// One pair at a time: the dict may get more, so the sink is not asked.
    pub(super) fn set_item(&mut self) -> Step {
        let height = self.stack.len().saturating_sub(2);
        let target = self.below(height)?;
        let dict = self.plain_dict(target, self.opcode_at)?;
        self.store
            .add_pairs(dict, self.opcode_at, &self.stack[height..])?;
        self.stack.truncate(height);
        Ok(())
    }

    pub(super) fn appends(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let target = self.below(mark.height)?;
        self.fill_list(target, mark.height)
    }

    pub(super) fn append(&mut self) -> Step {
        let height = self.stack.len().saturating_sub(1);
        let target = self.below(height)?;
        self.fill_list(target, height)
    }

    /// Moves the values from `height` on into a list.
    pub(super) fn fill_list(&mut self, target: Value, height: usize) -> Step {
        let Value::List(list) = target else {
            return Err(self.error(Problem::WrongContainer { wanted: "list" }));
        };
        if let Err(problem) = self.store.add_items(list, &self.stack[height..]) {
            return Err(self.error(problem));
        }
        self.stack.truncate(height);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn tuple(&mut self, len: usize) -> Step {
        if self.stack.len() - self.floor() < len {
            return Err(self.error(Problem::StackUnderflow));
        }
        self.tuple_from(self.stack.len() - len)
    }

    pub(super) fn tuple_from(&mut self, height: usize) -> Step {
        let tuple = self.store.new_tuple(&self.stack[height..]);
        self.stack.truncate(height);
        self.push_new(tuple)
    }

    pub(super) fn marked_tuple(&mut self) -> Step {
        let mark = self.pop_mark()?;
        self.tuple_from(mark.height)
    }

    pub(super) fn marked_list(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let list = self
            .store
            .new_list()
            .map_err(|problem| self.error(problem))?;
        self.fill_list(self.store.value(list), mark.height)?;
        self.push(list)
    }

    pub(super) fn marked_dict(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let dict = self
            .store
            .new_dict()
            .map_err(|problem| self.error(problem))?;
        self.fill_dict(self.store.value(dict), mark)?;
        self.push(dict)
    }
}
