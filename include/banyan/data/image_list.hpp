// Image files named in a list, as the ImageData layer and convert_imageset read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/record.hpp"

namespace banyan::data {

struct ListedImage {
  std::string path;
  std::int32_t label = 0;
  std::vector<float> labels;  ///< instead, where a line has several
  /// Instead, where a line names classes: those, and as -1 - class others of which nothing is known.
  std::vector<int> classes{};
};

/// One `path label` per line, split at the last space or tab: paths may contain spaces. A line that begins
/// with a double quote: `"path" label`. Blank lines are skipped. Throws bad_input `file:line: ...` for a line
/// without a label or with one that is not a 32-bit integer, and for an empty list. With `labels` above 1 as
/// many numbers follow each path, which need not be integers.
std::vector<ListedImage> read_image_list(const std::string& path, int labels = 1);

struct ClassList {
  std::vector<ListedImage> images;
  int classes = 0;  ///< one more than the greatest; 0: it is an ordinary list
};
/// The same, but if a line has a `;` (a branch for PASCAL), all are `path classes;unknown`, or only `path
/// classes`, with classes from 0 on between blanks. Lines that begin with # are comments.
ClassList read_class_list(const std::string& path);

/// One image and one file of boxes per line, split at the last space or tab, both after `root_folder`. A file
/// holds five whole numbers for each box, which are the image's labels, filled up with -1 to as many as the
/// image with most boxes has, at least five (BboxData). Throws bad_input `file:line: ...`.
std::vector<ListedImage> read_box_files(const std::string& path, const std::string& root_folder);

struct ImageListOptions {
  std::string root_folder;            ///< prepended to each path as is
  int new_height = 0, new_width = 0;  ///< resize if both are positive
  int short_side = 0;                 ///< if positive, resize so that the shorter side is as long
  int min_height = 0, min_width = 0;  ///< enlarge smaller images, with their aspect, to both at least
  ColorMode color = ColorMode::bgr;
  bool scaled_decoding = false;  ///< decode_image's `least` is the new size
  int labels = 1;                ///< numbers after each path
  /// With labels == 1: read_class_list. Labels are then 1 for each class that is named, `unknown` for each of
  /// which nothing is known, 0 for the rest.
  bool classes = false;
  float unknown = -1;
  bool box_files = false;  ///< instead: a file of boxes, see read_box_files
};

/// The list is read once per process for all sources that use it.
std::shared_ptr<RecordSource> open_image_list(const std::string& path, const ImageListOptions& options);

}  // namespace banyan::data
