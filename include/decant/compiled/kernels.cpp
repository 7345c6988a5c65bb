// Products, norms, activations and what a step needs that depends on no store.
#include <decant/kernels/detail/activation.hpp>
#include <decant/kernels/detail/matrix.hpp>
#include <decant/kernels/detail/norm.hpp>
#include <decant/kernels/detail/row_tiles.hpp>
#include <decant/kernels/detail/softmax.hpp>
#include <decant/model/detail/adapter.hpp>
#include <decant/model/detail/decoder.hpp>
#include <decant/model/detail/weights.hpp>
#include <decant/model/detail/workspace.hpp>
#include <decant/simd/detail/instruction_set.hpp>
