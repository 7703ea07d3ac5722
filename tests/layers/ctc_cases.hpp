// CTC's layers, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::ctc_cases {

/// Of 5 time steps, 2 sequences and 4 classes.
inline const Shape kScores{5, 2, 4}, kSteps{5, 2};

/// Without normalization the gradient would be that of the sum, and the loss the mean.
inline std::string divided(const std::string& text) {
  return text + " loss_param { normalization: BATCH_SIZE }";
}
inline std::string rows(int blank, const std::string& more = "") {
  return cat("type: 'CtcLoss' ctc_loss_param { alphabet_size: 4 time_step: 5 blank_label: ", blank, " } ",
             more);
}
inline std::string decoder(const std::string& settings) {
  return "type: 'CTCGreedyDecoder' ctc_decoder_param { " + settings + " }";
}

inline GradientCase case_of(const std::string& name, const std::string& text,
                            const std::vector<Shape>& inputs, const Values& labels, int outputs = 1) {
  GradientCase made{name, text, inputs, outputs};
  made.labels = 1;  // of three inputs, the marks
  made.classes = inputs.size() == 3 ? 2 : 0;
  made.size = 3;
  made.last_input = labels;
  return made;
}

/// One label each: the marks may end a sequence early.
inline const Values kColumns{1, 0, -1, -1, -1, -1, -1, -1, -1, -1};

inline const std::vector<GradientCase> kCases = {
    case_of("columns", divided("type: 'CTCLoss'"), {kScores, kSteps, kSteps}, kColumns),
    case_of("columns_blank",
            divided("type: 'CTCLoss' ctc_loss_param { blank_index: 2 ctc_merge_repeated: false }"),
            {kScores, kSteps, kSteps}, kColumns),
    case_of("warp", "type: 'WarpCTCLoss' loss_param { normalization: NONE }", {kScores, Shape{2, 3}},
            {1, 1, 3, 2, 0, 3}),
    case_of("warp_last", divided("type: 'WarpCTCLoss' ctc_loss_param { blank_index: 3 }"),
            {Shape{5, 2, 4, 1}, Shape{2, 3, 1, 1}}, {1, 1, 1, 0, 2, 3}),
    case_of("rows", divided(rows(3)), {kScores, Shape{2, 2}}, {0, 1, 3, 3}),
    case_of("rows_sum", rows(0, "loss_param { normalization: NONE }"), {kScores, Shape{2, 6}},
            {1, 2, 3, 0, 0, 0, 3, 3, 3, 3, 3, 3}),  // the second one is impossible
    case_of("decoder", decoder(""), {kScores, kSteps, kSteps}, kColumns, 3),
    case_of("decoder_alone", decoder("blank_index: 1 ctc_merge_repeated: false"), {kScores}, {}),
    case_of("decoder_rows", decoder(""), {kScores, Shape{2, 3}}, {1, 0, 0, 2, 3, 1}),
    case_of("accuracy", "type: 'LabelsequenceAccuracy' labelsequence_accuracy_param { blank_label: 2 }",
            {Shape{2, 5, 4}, Shape{2, 3}}, {1, 2, 2, 0, 3, 1}),
};

}  // namespace banyan::testing::ctc_cases
