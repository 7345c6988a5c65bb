# decant_snippets(README.md guide.md...): every complete program in a ```cpp block is built and run,
# every ```sh block that a ```text block follows is run, and what they print is the ```text block.
# Other ```cpp blocks are compiled with the program before them, as functions of what they mention.
set(mentioned "[[maybe_unused]] const model::Decoder& decoder,
  [[maybe_unused]] kv::Contiguous<codec::BF16>& a, [[maybe_unused]] kv::Contiguous<codec::BF16>& b,
  [[maybe_unused]] std::span<const Token> prompt_chunk, [[maybe_unused]] Token next_token,
  [[maybe_unused]] Executor& threads,
  [[maybe_unused]] const checkpoints::Checkpoint& checkpoint,
  [[maybe_unused]] const text::Tokenizer& tokenizer")
function(decant_snippets)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(rest)
  foreach(page IN LISTS ARGN)
    file(READ ${page} markdown)
    string(APPEND rest "\n${markdown}")
  endforeach()
  set(number 0)
  set(command)
  while(rest MATCHES "(^|\n)```([a-z]+)\n")
    string(FIND "${rest}" "${CMAKE_MATCH_0}" begin)
    string(LENGTH "${CMAKE_MATCH_0}" length)
    set(language ${CMAKE_MATCH_2})
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "\n${rest}" "\n```" end)
    string(SUBSTRING "${rest}" 0 ${end} block)
    math(EXPR end "${end} + 3")
    string(SUBSTRING "${rest}" ${end} -1 rest)

    set(file ${CMAKE_CURRENT_BINARY_DIR}/snippet_${number})
    if(language STREQUAL text AND command)
      file(WRITE ${file}.txt "${block}")
      add_test(NAME package.snippet_${number} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        COMMAND ${CMAKE_COMMAND} -DEXPECTED=${file}.txt -P ${PROJECT_SOURCE_DIR}/tests/package/diff_output.cmake
                -- ${command})
      set_tests_properties(package.snippet_${number} PROPERTIES LABELS package)
    endif()
    set(command)
    if(language STREQUAL cpp AND block MATCHES "int main\\(")
      file(WRITE ${file}.cpp "${block}")
      add_executable(snippet_${number} ${file}.cpp)
      decant_program(snippet_${number} tests_io)
      set(command $<TARGET_FILE:snippet_${number}>)
      set(program ${file}.cpp)
    elseif(language STREQUAL cpp)
      file(APPEND ${program} "namespace decant {\nvoid block_${number}(${mentioned}) {\n${block}\n}\n}\n")
    elseif(language STREQUAL sh)
      string(REPLACE build/release ${PROJECT_BINARY_DIR} block "${block}")
      file(WRITE ${file}.sh "${block}")
      set(command bash -e ${file}.sh)
    endif()
    math(EXPR number "${number} + 1")
  endwhile()
endfunction()
