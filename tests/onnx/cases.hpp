// tests/onnx/cases.hpp - the node cases of the ONNX standard: operators with inputs and outputs.
//
// cases.json describes the tensors that lie in tensors.bin. All elements are widened to float,
// which holds each of them exactly: the integers are positions, the booleans 0 and 1.
//
// Source      ONNX operator specification, opsets 23 and 24
#pragma once

#include <decant/codec/plain.hpp>
#include <decant/core/types.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace decant::onnx {

// Shape    row-major
struct Tensor {
  std::string name;
  std::string type;
  std::vector<Index> shape;
  std::vector<float> values;

  Index extent(Index axis) const {
    return shape[static_cast<std::size_t>(axis < 0 ? axis + std::ssize(shape) : axis)];
  }
};

struct Case {
  std::string name;
  std::string op;
  nlohmann::json attributes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;

  const Tensor* find(const std::string& input) const {
    for (const Tensor& tensor : inputs) {
      if (tensor.name == input) return &tensor;
    }
    return nullptr;
  }
  const Tensor& at(const std::string& name_of) const {
    for (const auto* list : {&inputs, &outputs}) {
      for (const Tensor& tensor : *list) {
        if (tensor.name == name_of) return tensor;
      }
    }
    throw std::out_of_range(name + " has no tensor " + name_of);
  }
  double number(const char* attribute, double otherwise) const {
    return attributes.value(attribute, otherwise);
  }
  Index integer(const char* attribute, Index otherwise) const {
    return attributes.value(attribute, otherwise);
  }
};

template <class Cell>
float widened(const char* bytes) {
  Cell cell;
  std::memcpy(&cell, bytes, sizeof cell);
  if constexpr (std::is_same_v<Cell, codec::F16::Cell>) {
    return codec::F16::load(cell);
  } else {
    return static_cast<float>(cell);
  }
}

inline Tensor read_tensor(const nlohmann::json& description, const std::string& bytes) {
  Tensor tensor{description["name"], description["dtype"], description["shape"], {}};
  Index count = 1;
  for (Index extent : tensor.shape) count *= extent;
  const auto fill = [&](auto read, std::size_t size) {
    const char* from = bytes.data() + description["offset"].get<std::size_t>();
    for (Index i = 0; i < count; ++i, from += size) tensor.values.push_back(read(from));
  };
  if (tensor.type == "float32") fill(widened<float>, 4);
  if (tensor.type == "float16") fill(widened<codec::F16::Cell>, 2);
  if (tensor.type == "int64") fill(widened<std::int64_t>, 8);
  if (tensor.type == "bool") fill(widened<bool>, 1);
  return tensor;
}

// The cases of one operator, or none if the data is missing.
inline std::vector<Case> cases(const std::string& op) {
  const std::filesystem::path folder =
      std::filesystem::path(DECANT_SHARED_DATA) / "onnx-node-cases";
  if (!std::filesystem::exists(folder)) return {};
  std::ifstream text(folder / "cases.json");
  std::ifstream binary(folder / "tensors.bin", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(binary), {});
  std::vector<Case> result;
  for (const nlohmann::json& entry : nlohmann::json::parse(text)) {
    if (entry["op"] != op) continue;
    Case one{entry["name"], op, entry["attributes"], {}, {}};
    for (const auto& input : entry["inputs"]) one.inputs.push_back(read_tensor(input, bytes));
    for (const auto& output : entry["outputs"]) one.outputs.push_back(read_tensor(output, bytes));
    result.push_back(std::move(one));
  }
  return result;
}

// |result - expected| <= tolerance * (1 + |expected|) everywhere.
inline void expect_close(const std::vector<float>& result, const std::vector<float>& expected,
                         double tolerance) {
  ASSERT_EQ(result.size(), expected.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_NEAR(result[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "value " << i;
  }
}

// Runs `check` on all cases of an operator; there must be exactly `count` of them.
template <class Check>
void for_cases(const std::string& op, std::size_t count, Check check) {
  const std::vector<Case> all = cases(op);
  if (all.empty()) GTEST_SKIP() << "no ONNX cases under " DECANT_SHARED_DATA;
  EXPECT_EQ(all.size(), count);
  for (const Case& one : all) {
    SCOPED_TRACE(one.name);
    check(one);
  }
}

}  // namespace decant::onnx
