// Temporary folders and small data sets for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/lmdb_writer.hpp"

namespace banyan::data {

/// A separate folder for each test, removed at the end.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "banyan_" + info->test_suite_name() + "_" + info->name() + "_" +
              std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

inline std::string key_of(std::uint64_t i) {
  std::string text = std::to_string(i);
  return std::string(8 - text.size(), '0') + text;
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline void write_file(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  write_file(path, std::string(bytes.begin(), bytes.end()));
}

/// Record i: channels x height x width pixels of value i (mod 256), label i.
inline void make_numbered_lmdb(const std::string& path, int records, int channels = 1, int height = 2,
                               int width = 2) {
  LmdbWriter writer(path);
  for (int i = 0; i < records; ++i) {
    const std::vector<std::uint8_t> pixels(channels * height * width, static_cast<std::uint8_t>(i));
    writer.put(key_of(static_cast<std::uint64_t>(i)), raw_datum(channels, height, width, pixels.data(), i));
  }
  writer.close();
}

/// Smooth colours, so that JPEG keeps them within a few steps.
inline Image gradient_image(int channels, int height, int width) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(20 + 60 * c + 3 * x + 2 * y));
  return image;
}

/// The message of the bad_input that `body` throws; a failure if it throws none.
template <class Body>
std::string bad_input_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace banyan::data
