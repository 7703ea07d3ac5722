// The framing of TensorFlow's record files, which TensorBoard's event files use: for each record its length
// (8 bytes), the checksum of these (4 bytes), its bytes, their checksum (4 bytes); little-endian. Checksums
// are CRC-32C, masked so that a checksum of bytes that hold checksums is still a good one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace banyan::metrics {

std::uint32_t crc32c(std::string_view bytes);
/// As stored.
std::uint32_t masked_crc32c(std::string_view bytes);

/// A record as it stands in a file.
std::string framed(std::string_view record);

/// Calls accept(record) for each whole record with right checksums, in order, until it returns
/// false or there are no more. Returns the number of bytes before the first frame that was not accepted.
/// Throws bad_input if the file cannot be read.
std::int64_t read_frames(const std::string& path,
                         const std::function<bool(const std::string& record)>& accept);

}  // namespace banyan::metrics
