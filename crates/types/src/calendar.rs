//! Converts between day numbers and dates of the proleptic Gregorian calendar.
//!
//! The conversions count in eras of 400 years that begin in March, after H. Hinnant's
//! "chrono-Compatible Low-Level Date Algorithms". They are exact for all day numbers below 2^63 /
//! 1000 in absolute value.

/// Milliseconds in a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;
/// Nanoseconds in a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_SHIFT: i64 = 719_468;

/// A day of the proleptic Gregorian calendar; the year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct CivilDate {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

/// Returns the days from 1970-01-01 to a date.
pub fn days_from_civil(date: CivilDate) -> i64 {
    let CivilDate { year, month, day } = date;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_SHIFT
}

/// Returns the date that is a number of days after 1970-01-01.
pub fn civil_from_days(days: i64) -> CivilDate {
    let shifted = days + EPOCH_SHIFT;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    CivilDate { year, month: month as u32, day }
}

/// Returns the number of days in a month (1 to 12).
pub fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_day_of_nine_centuries_follows_its_predecessor() {
        let mut date = CivilDate { year: 1499, month: 12, day: 31 };
        let first = days_from_civil(date);
        for days in first..first + 330_000 {
            assert_eq!(civil_from_days(days), date);
            assert_eq!(days_from_civil(date), days);
            date.day += 1;
            if date.day > days_in_month(date.year, date.month) {
                date.day = 1;
                date.month += 1;
            }
            if date.month > 12 {
                date.month = 1;
                date.year += 1;
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(days in -106_751_991_168i64..106_751_991_168) {
            prop_assert_eq!(days_from_civil(civil_from_days(days)), days);
        }
    }
}
