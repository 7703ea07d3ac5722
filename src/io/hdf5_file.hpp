// HDF5 files. Only src/io/hdf5 uses the library, one call at a time: it need not be one for threads. That is
// a shared library of its own, libbanyan_hdf5.so, which is loaded with the first file: HDF5 brings some
// thirty others, for networks above all, that take memory and time at the start. A build without HDF5 has
// these functions too, and refuses to open or create a file. Internal to the program.
//
// Paths within a file are `group/dataset`. T is float, double, std::int32_t or std::uint8_t; what is stored
// as another type of number is converted. Failures throw bad_input (files to read) or runtime_failure (files
// to write) with the file, the path and HDF5's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace banyan::io {

/// Was this build made with HDF5?
bool has_hdf5();
/// Loads the library. Throws bad_input, saying that `what` needs it, in a build without HDF5, and where it
/// cannot be loaded.
void require_hdf5(const std::string& what);
/// Whether the file begins as HDF5 files do; false if it cannot be read.
bool looks_like_hdf5(const std::string& path);

/// To be called before `read`, which reads the file: libhdf5 follows wild pointers in damaged files, so that
/// a copy of this process does it first. Throws bad_input if that copy crashes or goes on for longer than
/// such a file can take. What `read` throws there does not matter: it will throw it here again.
void rehearse_hdf5(const std::string& path, const std::function<void()>& read);
/// Makes rehearse_hdf5() do nothing: this process is a copy that may crash.
void stop_rehearsing_hdf5();

/// Types of numbers in memory.
enum class Hdf5Number { f32, f64, i32, u8 };

template <class T>
constexpr Hdf5Number hdf5_number() {
  if constexpr (std::is_same_v<T, float>) return Hdf5Number::f32;
  if constexpr (std::is_same_v<T, double>) return Hdf5Number::f64;
  if constexpr (std::is_same_v<T, std::int32_t>) return Hdf5Number::i32;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
                std::is_same_v<T, std::uint8_t>);
  return Hdf5Number::u8;
}

/// An open dataset of numbers; keeps its file open.
class Hdf5Dataset {
 public:
  virtual ~Hdf5Dataset() = default;
  virtual const std::vector<std::int64_t>& shape() const = 0;
  virtual bool is_double() const = 0;
  virtual std::int64_t count() const = 0;
  template <class T>
  void read(T* values) const {
    read_as(hdf5_number<T>(), values);
  }
  /// Rows [first, first + count) of the first axis, of which there must be one.
  template <class T>
  void read_rows(std::uint64_t first, std::uint64_t count, T* values) const {
    read_rows_as(hdf5_number<T>(), first, count, values);
  }
  template <class T>
  std::vector<T> values() const {
    std::vector<T> all(static_cast<std::size_t>(count()));
    read(all.data());
    return all;
  }

 protected:
  virtual void read_as(Hdf5Number type, void* values) const = 0;
  virtual void read_rows_as(Hdf5Number type, std::uint64_t first, std::uint64_t count,
                            void* values) const = 0;
};

class Hdf5File {
 public:
  static std::unique_ptr<Hdf5File> open(const std::string& path);
  /// Replaces an existing file.
  static std::unique_ptr<Hdf5File> create(const std::string& path);
  /// A new file in memory: see bytes().
  static std::unique_ptr<Hdf5File> create_in_memory(const std::string& name_in_messages);
  virtual ~Hdf5File() = default;

  virtual const std::string& name() const = 0;
  virtual bool contains(const std::string& path) const = 0;
  virtual bool is_group(const std::string& path) const = 0;
  /// Names in a group ("" is the whole file), in alphabetical order.
  virtual std::vector<std::string> names_in(const std::string& group) const = 0;
  /// Refuses what is missing, no dataset or not of numbers, and one that says to hold more than is stored.
  virtual std::unique_ptr<Hdf5Dataset> dataset(const std::string& path) const = 0;
  virtual std::string text(const std::string& path) const = 0;
  template <class T>
  T number(const std::string& path) const {
    T value{};
    read_number_as(hdf5_number<T>(), path, &value);
    return value;
  }

  virtual void make_group(const std::string& path) = 0;
  template <class T>
  void write(const std::string& path, const std::vector<std::int64_t>& shape, const T* values) {
    write_as(hdf5_number<T>(), path, shape, values);
  }
  virtual void write_text(const std::string& path, const std::string& text) = 0;
  /// Appends rows of shape `row` to a dataset, which is made by the first call; `row` must stay the same.
  template <class T>
  void append_rows(const std::string& path, const std::vector<std::int64_t>& row, std::uint64_t rows,
                   const T* values) {
    append_rows_as(hdf5_number<T>(), path, row, rows, values);
  }
  /// From here on a killed process leaves what has been written so far.
  virtual void flush() = 0;
  /// The whole file.
  virtual std::string bytes() = 0;

 protected:
  virtual void read_number_as(Hdf5Number type, const std::string& path, void* value) const = 0;
  virtual void write_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& shape,
                        const void* values) = 0;
  virtual void append_rows_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& row,
                              std::uint64_t rows, const void* values) = 0;
};

}  // namespace banyan::io
