# cmake -P words.cmake: names and prose use the field's words, and clang-format left no artefacts.
#
# A word below is refused in every source, script and document, alone or as a part of a camelCase or
# snake_case name. Its innocent senses are stated: by a word right before it (AFTER) or behind it
# (BEFORE), or by the files that it is refused in (ONLY_IN) or not (EXCEPT_IN). Options of programs
# (--keep) and keys of file formats are interface and stay as they are.
cmake_minimum_required(VERSION 3.25)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)

set(words "")
function(refused word instead)
  cmake_parse_arguments(PARSE_ARGV 2 of "" "" "AFTER;BEFORE;ONLY_IN;EXCEPT_IN")
  string(MAKE_C_IDENTIFIER "${word}" name)
  string(REGEX REPLACE "[a-z][?].*" "" stem "${word}")
  string(REGEX MATCH "[a-z]+" stem "${stem}")  # what every match begins with
  string(REPLACE " " "[^a-z0-9]+" word "${word}")
  list(JOIN of_AFTER "|" after)
  list(JOIN of_BEFORE "|" before)
  list(JOIN of_ONLY_IN "|" only_in)
  list(JOIN of_EXCEPT_IN "|" except_in)
  foreach(property stem word instead after before only_in except_in)
    set(${name}_${property} "${${property}}" PARENT_SCOPE)
  endforeach()
  set(words ${words} ${name} PARENT_SCOPE)
endfunction()

# Regular expressions over lower-case words; a blank is whatever stands between two.
set(filters "decoding/(detail/)?(candidates|sampler|filters|penalties|presets)" "support/sampler" "tests/decoding/presets")
refused("guess(|es|ed|ing)" "draft tokens, drafts; to draft")
refused("in several ways" "tree drafts, multi-candidate drafts")
refused("paths?" "branches" ONLY_IN "include/decant/decoding" "tests/decoding"
  AFTER file filesystem folder const open snapshot)
refused("in shares" "chunked prefill")
refused("beside decoding" "prefill token budget")
refused("ke(ep|eps|eping|pt)" "cache, hold, retain or select; only sampler filters keep candidates"
  EXCEPT_IN ${filters})
refused("whole (numbers?|tiles?)" "integers")
refused("multiply whole" "integers")
refused("no numbers?|is no number" "NaN" BEFORE "of")
refused("numbers" "elements, values; integers" AFTER std include random line page json version magic)
refused("number of (a|the|its|one) (row|cell|block|head|key|value|query)" "element")
refused("company" "other sequences of the batch")
refused("put(|s|ting) off" "preempted")
refused("places" "maximum running sequences" AFTER decimal ONLY_IN "include/decant/decoding" "tests/decoding" "examples")
refused("turn(ed|ing)" "rotated")
refused("turn(|s) (back|by)" "rotated")
refused("bend(|s|ing)" "activation")
refused("twins?" "reference")
refused("clos(e|es|ed|ing) (the |a |)gaps?" "context shift")
refused("prefix spaces?" "cache namespace")
refused("width" "hidden_size; size" AFTER register bit fixed line)
refused("feed forward (width|size)" "intermediate_size")
refused("remarks?" "warnings")
refused("tick(|s|ed|ing)" "engine step, step()")
refused("pairs?" "key and value formats, merges, dot products; only rotary pairs are pairs"
  AFTER std byte rotary make EXCEPT_IN "rope|rotary")
refused("blocks?" "panel spans, tiles; only quantised weights have blocks"
  ONLY_IN "include/decant/(kv|attention|simd|core)" "tests/(kv|attention|simd|core)")

file(GLOB_RECURSE files RELATIVE ${root} ${root}/.ci/* ${root}/bench/* ${root}/cmake/*
  ${root}/examples/* ${root}/include/* ${root}/tests/*)
file(GLOB top RELATIVE ${root} ${root}/*.md ${root}/*.txt ${root}/*.json)
list(APPEND files ${top})
list(FILTER files INCLUDE REGEX "(^.ci/run|[.]([ch]pp|py|sh|cmake|in|txt|md|json|jsonl))$")
list(FILTER files EXCLUDE REGEX "^(examples/models|tests/fuzz/corpus)/")
# This list, and the page that says how names changed.
list(FILTER files EXCLUDE REGEX "^(tests/package/words[.]cmake|CHANGELOG[.]md)$")

# report(file text at found instead): `found` stands `at` characters behind the text's beginning.
function(report file text at found instead)
  string(SUBSTRING "${text}" 0 ${at} before)
  string(REGEX MATCHALL "\n" lines "${before}")
  list(LENGTH lines line)
  math(EXPR line "${line} + 1")
  message(NOTICE "${file}:${line}: '${found}': ${instead}")
  set_property(GLOBAL APPEND PROPERTY found ${line})
endfunction()

# check(file text word): refuses every place of a word but the innocent ones.
function(check file text word)
  set(rest "${text}")
  set(passed 0)
  while(rest MATCHES "(^|[^a-z])(${${word}_word})($|[^a-z])")
    set(match "${CMAKE_MATCH_0}")
    set(found "${CMAKE_MATCH_2}")
    string(FIND "${rest}" "${match}" at)
    string(LENGTH "${match}" length)
    string(SUBSTRING "${rest}" 0 ${at} before)
    math(EXPR next "${at} + ${length} - 1")  # the character behind may begin the next match
    string(SUBSTRING "${rest}" ${next} -1 rest)
    if(NOT (${word}_after AND before MATCHES "(^|[^a-z])(${${word}_after})[^a-z0-9]*$") AND
       NOT (${word}_before AND rest MATCHES "^[^a-z0-9]*(${${word}_before})($|[^a-z])"))
      math(EXPR place "${passed} + ${at} + 1")
      report(${file} "${text}" ${place} "${found}" "${${word}_instead}")
    endif()
    math(EXPR passed "${passed} + ${next}")
  endwhile()
endfunction()

foreach(file IN LISTS files)
  file(READ ${root}/${file} text)
  if(file MATCHES "[.][ch]pp$" AND text MATCHES "([|][|][(]|::k[A-Z][A-Za-z0-9]*&&|noexcept->)")
    string(FIND "${text}" "${CMAKE_MATCH_1}" at)
    report(${file} "${text}" ${at} "${CMAKE_MATCH_1}" "an artefact of an old clang-format")
  endif()
  string(REGEX REPLACE "--[a-z][-a-z]*|\"kept\"|add_prefix_space" "_" text "${text}")
  string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" text "${text}")
  string(REGEX REPLACE "([A-Z])([A-Z][a-z])" "\\1_\\2" text "${text}")
  string(TOLOWER "${text}" text)
  foreach(word IN LISTS words)
    string(FIND "${text}" "${${word}_stem}" any)
    if(any GREATER_EQUAL 0 AND file MATCHES "^(${${word}_only_in})"
       AND NOT (${word}_except_in AND file MATCHES "${${word}_except_in}"))
      check(${file} "${text}" ${word})
    endif()
  endforeach()
endforeach()
get_property(found GLOBAL PROPERTY found)
list(LENGTH found count)
if(count GREATER 0)
  message(FATAL_ERROR "${count} words of the list")
endif()
