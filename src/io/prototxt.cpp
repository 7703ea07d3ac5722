#include "banyan/io/prototxt.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/io/atomic_file.hpp"
#include "complaints.hpp"
#include "text_blocks.hpp"

namespace banyan::io {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kLargestText = std::size_t{256} << 20;
constexpr int kMostReplaced = 300;  // places, after each of which the text is read again
constexpr std::size_t kMostRead = std::size_t{40} << 20;  // bytes in all
constexpr int kMostStray = 20;                            // a file with more is of another kind

bool nothing_set(const pb::Message& message) {
  std::vector<const pb::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields.empty();
}

/// Types of the V1 format as they are written there: SOFTMAX for "SOFTMAX" and, for a branch that has another
/// name for it, ROIPOOLING for ROI_POOLING. Everything stays in its place.
void mend_old_types(std::string& text) {
  constexpr std::string_view kOther = "ROI_POOLING", kOurs = "ROIPOOLING";
  for_each_value(text, "layers", "type", [&](std::string_view type, std::size_t begin, std::size_t end) {
    const std::string name = type == kOther ? std::string(kOurs) : std::string(type);
    if (caffe::V1LayerParameter_LayerType_descriptor()->FindValueByName(name) == nullptr) return;
    text.replace(begin, end - begin, name + std::string(end - begin - name.size(), ' '));
  });
}

/// Text as the parser takes it, and where it has what the file does not have.
struct ReadText {
  std::string text;
  std::vector<TextSpan> added;
  bool early = false;      // it had rules of early files
  bool pose_data = false;  // it had CPMData's settings as convolutional pose machines write them

  void insert(std::size_t at, const std::string& more) {
    for (TextSpan& span : added)
      if (span.begin >= at) span = {span.begin + more.size(), span.end + more.size()};
    text.insert(at, more);
    added.push_back({at, at + more.size()});
  }
  void blank(std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k)
      if (text[k] != '\n') text[k] = ' ';
  }
  /// Everything else stays in its line, and but for what is longer in its place.
  void replace(const TextSpan& place, const std::string& by) {
    blank(place.begin, place.end);
    const std::size_t line_end = std::min(text.find('\n', place.begin), place.end),
                      over = std::min(by.size(), line_end - place.begin);
    text.replace(place.begin, over, by, 0, over);
    if (over < by.size()) insert(place.begin + over, by.substr(over));
  }
};

/// The blocks with these names that are in no other such block; where braces are missing, one is after
/// another of its name.
std::vector<TextBlock> outermost(std::string_view text, const std::vector<std::string>& names) {
  std::vector<TextBlock> blocks = blocks_named(text, names);
  const bool unclosed = missing_braces(text).has_value();
  // Each is read to the end of the text then; so many are no net, and would take minutes.
  constexpr std::size_t kMostUnclosed = 1000;
  if (unclosed && blocks.size() > kMostUnclosed) blocks.resize(1);
  std::size_t end = 0;
  std::string around;
  std::erase_if(blocks, [&](const TextBlock& block) {
    const bool is_inside = block.begin < end && !(unclosed && block.name == around);
    if (is_inside) return true;
    end = end_of(text, block);
    around = block.name;
    return false;
  });
  return blocks;
}

/// `phase` and `stage` of V1 layers without rules, as files of early 2014 have them, become one rule:
/// `include { phase: TRAIN stage: "x" }` in the place of the first of them.
void mend_old_rules(ReadText& read) {
  const std::vector<TextBlock> blocks = outermost(read.text, {"layers"});
  // From the end on: what is before stays in its place.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const std::vector<TextSpan> rules = fields_in(read.text, *block, {"phase", "stage"});
    if (rules.empty() || has_field(read.text, *block, {"include", "exclude"})) continue;
    read.early = true;
    std::string rest;
    for (std::size_t k = 1; k < rules.size(); ++k) {
      rest += " " + read.text.substr(rules[k].begin, rules[k].end - rules[k].begin);
      read.blank(rules[k].begin, rules[k].end);
    }
    std::replace(rest.begin(), rest.end(), '\n', ' ');
    read.insert(rules[0].end, rest + " }");
    read.insert(rules[0].begin, "include { ");
  }
}

/// Their solvers' `test_stage: "x"` becomes `test_state { stage: "x" }`.
void mend_test_stages(ReadText& read) {
  const TextBlock solver{"", 0};
  const std::vector<TextSpan> stages = fields_in(read.text, solver, {"test_stage"});
  if (has_field(read.text, solver, {"test_state"})) return;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    read.early = true;
    read.insert(stage->end, " }");
    read.blank(stage->begin, stage->begin + std::string_view("test_").size());
    read.insert(stage->begin, "test_state { ");
  }
}

/// In convolutional pose machines, CPMData has `cpmdata_param { }` and `transform_param { }`; here, as in
/// OpenPose, `data_param { }` and `cpm_transform_param { }`.
void mend_pose_data(ReadText& read) {
  const std::vector<TextBlock> blocks = blocks_named(read.text, {"cpmdata_param", "transform_param"});
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const std::vector<TextBlock> around = blocks_around(read.text, block->begin);
    if (around.size() < 2) continue;
    const TextBlock& layer = around[around.size() - 2];
    const bool settings = block->name == "cpmdata_param";
    if (value_in(read.text, layer, "type") != "CPMData" ||
        (!settings && has_field(read.text, layer, {"cpm_transform_param"})))
      continue;
    const std::size_t name = read.text.rfind(block->name, block->begin);
    if (settings)
      read.blank(name, name + std::string_view("cpm").size());
    else
      read.insert(name, "cpm_");
    read.pose_data = true;
  }
}

/// A file with both sides of a merge is neither of them.
void refuse_merge(std::string_view text, const std::string& origin) {
  for (const std::string_view marker : {"<<<<<<<", "=======", ">>>>>>>"})
    for (std::size_t at = text.find(marker); at != std::string_view::npos; at = text.find(marker, at + 1))
      if (at == 0 || text[at - 1] == '\n')
        bad_input(origin, ":", 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'),
                  ": the file has an unresolved merge; choose one of its sides");
}

/// Without a byte order mark.
ReadText readable_text(std::string_view text, const pb::Descriptor& root, const std::string& origin) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);  // byte order mark of some editors
  if (text.size() > kLargestText) bad_input(origin, ": more than ", kLargestText, " bytes of text");
  if (text.find('\0') != std::string_view::npos) {
    bad_input(origin, ": expected text (.prototxt), found a binary file");
  }
  refuse_merge(text, origin);
  if (const std::size_t first = text.find_first_not_of(" \t\r\n");
      first != std::string_view::npos && text[first] == '<')
    bad_input(
        origin,
        ": expected text (.prototxt), found HTML or XML: a page that shows the file, not the file itself?");
  ReadText read{std::string(text), {}, false, false};
  if (text.find("layers") != std::string_view::npos) {
    mend_old_types(read.text);
    mend_old_rules(read);
  }
  if (text.find("CPMData") != std::string_view::npos) mend_pose_data(read);
  // What is put in at the end is not to be a part of a comment.
  if (const std::size_t last = read.text.rfind('\n');
      read.text.find('#', last == std::string::npos ? 0 : last) != std::string::npos)
    read.text += '\n';
  // The parser takes no separator after a field that it does not know.
  for (const std::size_t place : field_separators(read.text)) read.text[place] = ' ';
  if (&root == caffe::SolverParameter::descriptor() && text.find("test_stage") != std::string_view::npos)
    mend_test_stages(read);
  return read;
}

/// Goes on after unknown fields: the complaints tell which of them are errors.
pb::TextFormat::Parser parser_for(Complaints& complaints) {
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&complaints);
  parser.SetRecursionLimit(kDeepestNesting);
  parser.AllowUnknownField(true);
  return parser;
}

/// Where braces are missing, and no lists are open, closes blocks before the first field that is not theirs
/// but one's around them, or at the end, if that is complained of.
std::optional<Complaint> close_blocks(ReadText& read, Complaints& complaints) {
  const std::optional<MissingBraces> missing = missing_braces(read.text);
  if (!missing || missing->in_list) return {};
  if (std::optional<Complaints::Misplaced> field = complaints.first_misplaced(missing->within)) {
    read.insert(field->complaint.offset, field->closing);
    return std::move(field->complaint);
  }
  const std::size_t end = read.text.size();
  if (missing->within.end < end || !complaints.error() || complaints.error()->offset != end ||
      !complaints.stand_in().text.empty())
    return {};
  read.insert(end, closing_of(read.text, blocks_around(read.text, end), 0));
  return complaints.error();
}

template <class Message>
Message parse_file(std::string_view text, const std::string& origin, UnknownFields unknown,
                   const char* what) {
  Message message;
  parse_text(text, origin, message, unknown);
  if (nothing_set(message)) bad_input(origin, ": expected the description of a ", what, ", found nothing");
  return message;
}

}  // namespace

void parse_text(std::string_view text, const std::string& origin, pb::Message& message,
                UnknownFields unknown) {
  const ReadText read = readable_text(text, *message.GetDescriptor(), origin);
  Complaints complaints(read.text, *message.GetDescriptor(), origin, read.added);
  pb::TextFormat::Parser parser = parser_for(complaints);
  const bool parsed = parser.ParseFromString(read.text, &message);
  // It ends at the first error, so unknown fields are before that.
  if (unknown == UnknownFields::refuse)
    for (const Complaint& field : complaints.warnings(1)) bad_input(field.text);
  if (complaints.error()) bad_input(complaints.error()->text);
  if (!parsed) bad_input(origin, ": not a readable ", message.GetDescriptor()->name());
  for (const Complaint& warning : complaints.warnings()) log_warning(warning.text + "; ignored");
  if (read.early)
    log_info(origin + ": read phase, stage and test_stage of early files as include and test_state");
  if (read.pose_data)
    log_info(origin +
             ": read cpmdata_param and transform_param of CPMData as data_param and cpm_transform_param");
}

TextProblems find_text_problems(std::string_view text, const std::string& origin, pb::Message& message) {
  ReadText rest = readable_text(text, *message.GetDescriptor(), origin);
  std::vector<Complaint> found;
  TextProblems problems;
  int replaced = 0, stray = 0;
  for (bool done = false; !done;) {
    const ReadText read = rest;
    Complaints complaints(read.text, *message.GetDescriptor(), origin, read.added);
    pb::TextFormat::Parser parser = parser_for(complaints);
    message.Clear();
    done = parser.MergeFromString(read.text, &message);  // a field may be given again
    const auto reads = static_cast<std::size_t>(replaced) + 1;
    const bool may_go_on = replaced < kMostReplaced && reads * read.text.size() <= kMostRead;
    if (std::optional<Complaint> unclosed; may_go_on && (unclosed = close_blocks(rest, complaints))) {
      found.push_back(std::move(*unclosed));
      ++replaced;
      done = false;
    } else if (complaints.error()) {
      Complaint error = *complaints.error();
      const StandIn& stand_in = complaints.stand_in();
      const bool again = !found.empty() && found.back().offset >= error.offset;
      ++replaced;
      if (again && may_go_on && found.back().offset == error.offset) {
        // What was read there is not right either, of which nothing more is to be said.
        const TextSpan place = stray_at(read.text, error.offset);
        if (place.begin < place.end && ++stray <= kMostStray) {
          rest.replace(place, " ");
          problems.lost = true;
          done = false;
          continue;
        }
      }
      const bool mended =
          !stand_in.text.empty() && !again && (!stand_in.stray || ++stray <= kMostStray) && may_go_on;
      if (mended) rest.replace(stand_in.place, stand_in.text);
      if (mended && stand_in.guessed) {
        const bool in_layer = !complaints.layer_of_error().second.empty();
        if (in_layer) problems.guessed_layers.insert(complaints.layer_of_error());
        problems.guessed_elsewhere = problems.guessed_elsewhere || !in_layer;
      }
      problems.lost = problems.lost || stand_in.stray;
      problems.whole = mended;
      if (!mended) error.text += "; nothing after this place has been read";
      done = !mended;
      found.push_back(std::move(error));
    } else if (!done) {
      bad_input(origin, ": not a readable ", message.GetDescriptor()->name());
    }
    if (!done) continue;
    const std::size_t end = problems.whole ? std::string::npos : found.back().offset;
    for (Complaint& doubled : complaints.given_again())
      if (doubled.offset < end) found.push_back(std::move(doubled));
    const std::vector<Complaint> unknown_fields = complaints.warnings();
    for (const Complaint& field : unknown_fields) problems.unknown_fields.push_back(field.text);
    found.insert(found.end(), unknown_fields.begin(), unknown_fields.end());
    problems.told_layers = complaints.told_layers();
    problems.unknown_in_layers = complaints.unknown_in_layers();
    problems.unknown_transforms = complaints.unknown_transforms();
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Complaint& a, const Complaint& b) { return a.offset < b.offset; });
  for (Complaint& problem : found) problems.texts.push_back(std::move(problem.text));
  return problems;
}

caffe::NetParameter parse_net_text(std::string_view text, const std::string& origin, UnknownFields unknown) {
  return parse_file<caffe::NetParameter>(text, origin, unknown, "net");
}

caffe::SolverParameter parse_solver_text(std::string_view text, const std::string& origin,
                                         UnknownFields unknown) {
  return parse_file<caffe::SolverParameter>(text, origin, unknown, "solver");
}

std::string read_text_file(const std::string& path) { return read_file(path, kLargestText); }

caffe::NetParameter read_net_text(const std::string& path, UnknownFields unknown) {
  return parse_net_text(read_text_file(path), path, unknown);
}

caffe::SolverParameter read_solver_text(const std::string& path, UnknownFields unknown) {
  return parse_solver_text(read_text_file(path), path, unknown);
}

std::size_t line_of_layer(std::string_view text, const std::string& name, const std::string& type,
                          int occurrence) {
  std::size_t any = 0;
  for (const TextBlock& block : blocks_named(text, {"layer", "layers"})) {
    if (value_in(text, block, "name") != name) continue;
    const std::size_t line = 1 + std::count(text.begin(), text.begin() + block.begin, '\n');
    if (any == 0) any = line;
    if (value_in(text, block, "type") == type && occurrence-- == 0) return line;
  }
  return any;
}

std::vector<bool> old_layers_in(std::string_view text) {
  std::vector<bool> old;
  for (const TextBlock& block : outermost(text, {"layer", "layers"})) old.push_back(block.name == "layers");
  return old;
}

std::string to_text(const pb::Message& message) {
  std::string text;
  if (!pb::TextFormat::PrintToString(message, &text)) {
    runtime_failure("cannot write a ", message.GetDescriptor()->name(), " as text");
  }
  return text;
}

}  // namespace banyan::io
