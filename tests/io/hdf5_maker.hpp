// HDF5 files for tests, written by calls to HDF5's own interface.
#pragma once

#ifdef BANYAN_WITH_HDF5
#include <gtest/gtest.h>
#include <hdf5.h>

#include <string>
#include <vector>

namespace banyan {

class Hdf5Maker {
 public:
  explicit Hdf5Maker(const std::string& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    EXPECT_GE(file_, 0) << path;
  }
  ~Hdf5Maker() { H5Fclose(file_); }
  Hdf5Maker(const Hdf5Maker&) = delete;
  Hdf5Maker& operator=(const Hdf5Maker&) = delete;

  void group(const std::string& name) {
    H5Gclose(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  /// Stored as `type`; in chunks of `chunk` rows, compressed, if it is positive. No values: none are written.
  void add(const std::string& name, const std::vector<hsize_t>& dims, const std::vector<double>& values,
           hid_t type = H5T_NATIVE_FLOAT, hsize_t chunk = 0) {
    const int axes = static_cast<int>(dims.size());
    const hid_t space = axes == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(axes, dims.data(), nullptr);
    const hid_t settings = H5Pcreate(H5P_DATASET_CREATE);
    if (chunk > 0) {
      std::vector<hsize_t> chunks = dims;
      chunks[0] = chunk;
      H5Pset_chunk(settings, axes, chunks.data());
      H5Pset_deflate(settings, 6);
    }
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, H5P_DEFAULT, settings, H5P_DEFAULT);
    EXPECT_GE(set, 0) << name;
    if (!values.empty()) {
      EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
    }
    H5Dclose(set);
    H5Pclose(settings);
    H5Sclose(space);
  }
  void add_text(const std::string& name, const std::string& text) {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, text.size() + 1);
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()), 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Tclose(type);
  }

 private:
  hid_t file_;
};

/// All values of a dataset, and its shape.
inline std::vector<double> hdf5_values(const std::string& path, const std::string& name,
                                       std::vector<hsize_t>* shape = nullptr) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(set);
  EXPECT_GE(set, 0) << name;
  std::vector<hsize_t> dims(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  if (shape != nullptr) *shape = dims;
  return values;
}

/// first, first + step, ...
inline std::vector<double> counted(std::size_t count, double first = 0, double step = 1) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<double>(i));
  return values;
}

}  // namespace banyan
#endif
