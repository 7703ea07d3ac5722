#include "banyan/io/notes.hpp"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"

// BANYAN_DESCRIPTORS names what protoc makes of proto/banyan.proto with --include_source_info; the generated
// messages have no comments.
asm(".pushsection .rodata\n"
    ".globl banyan_descriptors_begin, banyan_descriptors_end\n"
    ".hidden banyan_descriptors_begin, banyan_descriptors_end\n"
    "banyan_descriptors_begin:\n"
    ".incbin \"" BANYAN_DESCRIPTORS
    "\"\n"
    "banyan_descriptors_end:\n"
    ".popsection\n");
extern "C" const char banyan_descriptors_begin[] __attribute__((visibility("hidden")));
extern "C" const char banyan_descriptors_end[] __attribute__((visibility("hidden")));

namespace banyan::io {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::SourceLocation;

/// Comments that stand before the fields of a branch, and hold up to the next one. What follows the last of
/// them is said of each of its fields.
constexpr const char* kHeadings[] = {"NVIDIA", "yjxiong", "PSPNet", "Intel", "Banyan", "other branches"};
constexpr std::string_view kHeadingWithNote = "3-D branches";

const DescriptorPool& documented_pool() {
  static const DescriptorPool& pool = *[] {
    google::protobuf::FileDescriptorSet files;
    auto* made = new DescriptorPool;
    const auto size = static_cast<int>(banyan_descriptors_end - banyan_descriptors_begin);
    if (!files.ParseFromArray(banyan_descriptors_begin, size))
      runtime_failure("the program's notes are damaged");
    for (const auto& file : files.file())
      if (made->BuildFile(file) == nullptr) runtime_failure("the program's notes are damaged");
    return made;
  }();
  return pool;
}

/// Lines joined, blanks at both ends removed.
std::string one_line(const std::string& comment) {
  std::string text;
  for (const char c : comment) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

struct Heading {
  std::string branch, about_all;
};

/// The heading that a comment begins with; the rest of the comment stays in `comment`.
std::optional<Heading> take_heading(std::string& comment) {
  const std::size_t end = std::min(comment.find('\n'), comment.size());
  const std::string line = one_line(comment.substr(0, end));
  const bool with_note = line.starts_with(kHeadingWithNote);
  // `NVIDIA: ...` is about one field.
  if (!with_note && !contains(kHeadings, line)) return std::nullopt;
  comment.erase(0, end);
  if (!with_note) return Heading{line, ""};
  const std::size_t note = line.find(' ', kHeadingWithNote.size());
  return Heading{std::string(kHeadingWithNote), note == std::string::npos ? "" : line.substr(note + 1)};
}

template <class Described>
std::string comment_of(const Described& what) {
  SourceLocation place;
  if (!what.GetSourceLocation(&place)) return "";
  return one_line(place.leading_comments + "\n" + place.trailing_comments);
}

}  // namespace

FieldNote note_of(const FieldDescriptor& asked) {
  const Descriptor* message = documented_pool().FindMessageTypeByName(asked.containing_type()->full_name());
  FieldNote note;
  if (message == nullptr) return note;
  Heading heading;
  for (int i = 0; i < message->field_count(); ++i) {
    SourceLocation place;
    if (!message->field(i)->GetSourceLocation(&place)) continue;
    std::string leading = place.leading_comments;
    if (const auto found = take_heading(leading)) heading = *found;
    if (message->field(i)->name() != asked.name()) continue;
    note.branch = heading.branch;
    note.about = one_line(leading + "\n" + place.trailing_comments);
    if (note.about.empty()) note.about = heading.about_all;
  }
  return note;
}

std::string note_of(const Descriptor& message) {
  const Descriptor* found = documented_pool().FindMessageTypeByName(message.full_name());
  return found == nullptr ? "" : comment_of(*found);
}

std::string note_of(const EnumDescriptor& type) {
  const EnumDescriptor* found = documented_pool().FindEnumTypeByName(type.full_name());
  return found == nullptr ? "" : comment_of(*found);
}

}  // namespace banyan::io
