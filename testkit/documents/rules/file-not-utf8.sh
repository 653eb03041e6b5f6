echo ÿ
