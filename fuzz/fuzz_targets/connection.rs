#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| espalier_fuzz_targets::run_by_name("connection", data));
