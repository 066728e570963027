#  tureen_folder (NAME SOURCES file... [USES target...]): the folder of the calling CMakeLists.txt is the
#  static library NAME.  It sees the headers of the targets that it uses, and of those that these use; no
#  others.  So the folders of the product depend one way only, and a circle does not build.
function (tureen_folder name)
    cmake_parse_arguments (PARSE_ARGV 1 folder "" "" "SOURCES;USES")
    add_library (${name} STATIC ${folder_SOURCES})
    target_include_directories (${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries (${name} PUBLIC ${folder_USES})
endfunction ()
