#include "banyan/metrics/record_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "io/io_test_tools.hpp"

namespace banyan::metrics {
namespace {

/// The examples of RFC 3720 (iSCSI), B.4, and the usual check value.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113FDB5Cu);
}

TEST(Crc32c, Masked) {
  const std::uint32_t crc = crc32c("123456789");
  EXPECT_EQ(masked_crc32c("123456789"), ((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

/// The first record of TensorFlow's event files has 24 bytes: they begin with these.
TEST(RecordFrame, IsTensorFlows) {
  const std::string frame = framed(std::string(24, 'x'));
  EXPECT_EQ(frame.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12));
  EXPECT_EQ(frame.size(), 8u + 4 + 24 + 4);
}

class RecordFile : public testing::Test {
 protected:
  std::int64_t read(const std::string& content, std::size_t most = 100) {
    io::put_file(path_, content);
    seen_.clear();
    return read_frames(path_, [&](const std::string& record) {
      if (seen_.size() == most) return false;
      seen_.push_back(record);
      return true;
    });
  }
  io::TemporaryFolder folder_;
  std::string path_ = folder_.file("records");
  std::vector<std::string> seen_;
};

TEST_F(RecordFile, ReadsWhatWasFramed) {
  const std::string content = framed("one") + framed("") + framed(std::string(5000, 'y'));
  EXPECT_EQ(read(content), static_cast<std::int64_t>(content.size()));
  EXPECT_THAT(seen_, testing::ElementsAre("one", "", std::string(5000, 'y')));
  EXPECT_EQ(read(content, 1), static_cast<std::int64_t>(framed("one").size()));
  EXPECT_EQ(read(""), 0);
}

TEST_F(RecordFile, StopsBeforeARecordThatIsNotWhole) {
  const std::string first = framed("one"), second = framed("another");
  for (std::size_t bytes = 0; bytes < second.size(); ++bytes) {
    EXPECT_EQ(read(first + second.substr(0, bytes)), static_cast<std::int64_t>(first.size())) << bytes;
    EXPECT_THAT(seen_, testing::ElementsAre("one"));
  }
}

TEST_F(RecordFile, StopsBeforeADamagedRecord) {
  const std::string first = framed("one"), second = framed("another");
  for (std::size_t at = 0; at < second.size(); ++at) {
    std::string damaged = second;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_EQ(read(first + damaged + first), static_cast<std::int64_t>(first.size())) << at;
  }
}

}  // namespace
}  // namespace banyan::metrics
