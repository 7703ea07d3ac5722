// HDF5 files. Only hdf5_file.cpp uses the library, one call at a time: it need not be one for threads. A
// build without it has these functions too, and refuses to open or create a file. Internal to the program.
//
// Paths within a file are `group/dataset`. T is float, double, std::int32_t or std::uint8_t; what is stored
// as another type of number is converted. Failures throw bad_input (files to read) or runtime_failure (files
// to write) with the file, the path and HDF5's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace banyan::io {

bool has_hdf5();
/// Throws bad_input, saying that `what` needs it, in a build without HDF5.
void require_hdf5(const std::string& what);
/// Whether the file begins as HDF5 files do; false if it cannot be read.
bool looks_like_hdf5(const std::string& path);

/// To be called before `read`, which reads the file: libhdf5 follows wild pointers in damaged files, so that
/// a copy of this process does it first. Throws bad_input if that copy crashes or goes on for longer than
/// such a file can take. What `read` throws there does not matter: it will throw it here again.
void rehearse_hdf5(const std::string& path, const std::function<void()>& read);

/// An open dataset of numbers; keeps its file open.
class Hdf5Dataset {
 public:
  struct State;
  explicit Hdf5Dataset(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::vector<std::int64_t>& shape() const;
  bool is_double() const;
  std::int64_t count() const;
  template <class T>
  void read(T* values) const;
  /// Rows [first, first + count) of the first axis, of which there must be one.
  template <class T>
  void read_rows(std::uint64_t first, std::uint64_t count, T* values) const;
  template <class T>
  std::vector<T> values() const {
    std::vector<T> all(static_cast<std::size_t>(count()));
    read(all.data());
    return all;
  }

 private:
  std::shared_ptr<State> state_;
};

class Hdf5File {
 public:
  static Hdf5File open(const std::string& path);
  /// Replaces an existing file.
  static Hdf5File create(const std::string& path);
  /// A new file in memory: see bytes().
  static Hdf5File create_in_memory(const std::string& name_in_messages);

  const std::string& name() const;
  bool contains(const std::string& path) const;
  bool is_group(const std::string& path) const;
  /// Names in a group ("" is the whole file), in alphabetical order.
  std::vector<std::string> names_in(const std::string& group) const;
  /// Refuses what is missing, no dataset or not of numbers, and one that says to hold more than is stored.
  Hdf5Dataset dataset(const std::string& path) const;
  std::string text(const std::string& path) const;
  template <class T>
  T number(const std::string& path) const;

  void make_group(const std::string& path);
  template <class T>
  void write(const std::string& path, const std::vector<std::int64_t>& shape, const T* values);
  void write_text(const std::string& path, const std::string& text);
  /// Appends rows of shape `row` to a dataset, which is made by the first call; `row` must stay the same.
  template <class T>
  void append_rows(const std::string& path, const std::vector<std::int64_t>& row, std::uint64_t rows,
                   const T* values);
  /// From here on a killed process leaves what has been written so far.
  void flush();
  /// The whole file.
  std::string bytes();

 private:
  struct State;
  explicit Hdf5File(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
  friend class Hdf5Dataset;
};

}  // namespace banyan::io
