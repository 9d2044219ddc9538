//! The texts that a snapshot may hold as keys or names, numbered so that they are compared once.

macro_rules! words {
    ($($name:ident $number:literal $text:literal)*) => {
        $(pub(super) const $name: u16 = $number;)*

        /// The number of a known text, 0 for any other.
        pub(super) fn number(text: &[u8]) -> u16 {
            match text {
                $($text => $number,)*
                _ => UNKNOWN,
            }
        }

        #[cfg(test)]
        const ALL: &[(u16, &[u8])] = &[$(($number, $text)),*];
    };
}

/// A text that is none of the words.
pub(super) const UNKNOWN: u16 = 0;

// Keys of dicts stand below 64, so that a set of them fits a `u64`.
words! {
    ACTION 1 b"action"
    ADDR 2 b"addr"
    DEVICE_FREE 3 b"device_free"
    SIZE 4 b"size"
    STREAM 5 b"stream"
    TIME_US 6 b"time_us"
    COMPILE_CONTEXT 7 b"compile_context"
    USER_METADATA 8 b"user_metadata"
    POOL_ID 9 b"pool_id"
    FRAMES 10 b"frames"
    NAME 11 b"name"
    FILENAME 12 b"filename"
    LINE 13 b"line"
    ADDRESS 14 b"address"
    REQUESTED_SIZE 15 b"requested_size"
    STATE 16 b"state"
    HISTORY 17 b"history"
    REAL_SIZE 18 b"real_size"
    DEVICE 19 b"device"
    TOTAL_SIZE 20 b"total_size"
    ALLOCATED_SIZE 21 b"allocated_size"
    ACTIVE_SIZE 22 b"active_size"
    SEGMENT_TYPE 23 b"segment_type"
    SEGMENT_POOL_ID 24 b"segment_pool_id"
    IS_EXPANDABLE 25 b"is_expandable"
    BLOCKS 26 b"blocks"
    STAGE 27 b"stage"
    SEGMENTS 28 b"segments"
    DEVICE_TRACES 29 b"device_traces"
    ALLOCATOR_SETTINGS 30 b"allocator_settings"
    EXTERNAL_ANNOTATIONS 31 b"external_annotations"
    HOST_SEGMENTS 32 b"host_segments"
    HOST_TRACES 33 b"host_traces"
    ALLOC_CONF 34 b"PYTORCH_CUDA_ALLOC_CONF"
    MAX_SPLIT_SIZE 35 b"max_split_size"
    GC_THRESHOLD 36 b"garbage_collection_threshold"
    EXPANDABLE_SEGMENTS 37 b"expandable_segments"
    ROUNDUP_DIVISIONS 38 b"roundup_power2_divisions"

    ALLOC 64 b"alloc"
    FREE_REQUESTED 65 b"free_requested"
    FREE_COMPLETED 66 b"free_completed"
    SEGMENT_ALLOC 67 b"segment_alloc"
    SEGMENT_FREE 68 b"segment_free"
    SEGMENT_MAP 69 b"segment_map"
    SEGMENT_UNMAP 70 b"segment_unmap"
    SNAPSHOT 71 b"snapshot"
    OOM 72 b"oom"
    ANNOTATE 73 b"annotate"
    ACTIVE_ALLOCATED 80 b"active_allocated"
    ACTIVE_PENDING_FREE 81 b"active_pending_free"
    ACTIVE_AWAITING_FREE 82 b"active_awaiting_free"
    INACTIVE 83 b"inactive"
    LARGE 84 b"large"
    SMALL 85 b"small"
    NOT_AVAILABLE 86 b"N/A"
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_word_has_a_number_of_its_own() {
        for (at, &(number, text)) in super::ALL.iter().enumerate() {
            assert_eq!(super::number(text), number);
            assert!(super::ALL[..at].iter().all(|other| other.0 != number));
        }
        assert_eq!(super::number(b"actions"), super::UNKNOWN);
    }
}
