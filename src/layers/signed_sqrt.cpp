// SignedSqrt (compact bilinear pooling): y = sqrt(x) for x >= 0, -sqrt(-x) below. The slope 1 / (2 |y|) is at
// most that at |y| = 0.0001; the branch adds a small number to |y|.
#include "function_layer.hpp"

namespace banyan {
namespace {

class SignedSqrtLayer : public FunctionLayer {
 public:
  SignedSqrtLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FunctionLayer(parameter, options, {ops::Function::Kind::signed_root, 1e-4}) {}
};

const RegisterLayer<SignedSqrtLayer> registered_signed_sqrt(
    "SignedSqrt", {"the root of |x| with the sign of x (compact bilinear pooling)", ""});

}  // namespace
}  // namespace banyan
