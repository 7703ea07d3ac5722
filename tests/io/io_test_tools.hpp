// Shared by the tests of io: an error's message, a temporary folder, and messages assembled byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/error.hpp"

namespace banyan::io {

/// The message of the Error that `body` throws; fails the test if it throws none or one of another kind.
template <class Body>
std::string error_of(Body&& body, ErrorKind kind = ErrorKind::bad_input) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

/// A new folder, removed with its contents at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "banyan_io_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::size_t count() const {
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++files;
    return files;
  }

 private:
  std::string path_;
};

inline void put_file(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string get_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

/// Keeps files of this process from growing beyond `bytes`, like a full disk; undone at the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ADD_FAILURE() << "no file size limit";
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

/// A protobuf message assembled field by field, for layouts that the schema cannot write.
class Wire {
 public:
  Wire& number(std::uint64_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Wire& bytes(std::uint64_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    data_ += value;
    return *this;
  }
  Wire& message(std::uint64_t field, const Wire& value) { return bytes(field, value.data_); }
  template <class T>  // float or double, one value
  Wire& single(std::uint64_t field, T value) {
    varint(field << 3 | (sizeof(T) == 4 ? 5 : 1));
    data_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  template <class T>
  Wire& packed(std::uint64_t field, const std::vector<T>& values) {
    return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  const std::string& data() const { return data_; }

 private:
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      data_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    data_ += static_cast<char>(value);
  }
  std::string data_;
};

}  // namespace banyan::io
